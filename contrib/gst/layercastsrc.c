/* layercastsrc: a flow of Layercast as one MPEG transport stream.
 * The library joins the flow and writes the stream into a socket; this element reads the other end. */
#include "elements.h"
#include <errno.h>
#include <fcntl.h>
#include <layercast.h>
#include <sys/socket.h>
#include <unistd.h>

#define GST_CAT_DEFAULT layercast_debug

/* Whole transport packets, as many as a large picture has. */
#define BLOCK (188 * 348)

struct _LayercastSrc {
    GstPushSrc parent;
    /* Properties; under the lock of the object. */
    gchar *uri, *name;
    guint level, playout_ms, within_ms;
    /* While it is started. */
    lc_socket management;
    GstPoll *poll;
    GstPollFD stream;
};

enum { PROP_URI = 1, PROP_MEMBER, PROP_LEVEL, PROP_PLAYOUT, PROP_WITHIN };

static GstStaticPadTemplate template = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("video/mpegts, systemstream=(boolean)true, packetsize=(int)188"));

static void uri_handler_init(gpointer iface, gpointer data);
G_DEFINE_TYPE_WITH_CODE(LayercastSrc, layercast_src, GST_TYPE_PUSH_SRC,
    G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init))

static gboolean set_uri(LayercastSrc *self, const gchar *uri, GError **error) {
    if (uri && !g_str_has_prefix(uri, "layercast://") && !g_str_has_prefix(uri, "layercasts://")) {
        g_set_error(error, GST_URI_ERROR, GST_URI_ERROR_UNSUPPORTED_PROTOCOL,
            "%s: expected layercasts://HOST:PORT/FLOW?.. as serve prints it, or layercast://HOST:PORT/FLOW", uri);
        return FALSE;
    }
    GST_OBJECT_LOCK(self);
    gboolean busy = self->poll != NULL;
    if (!busy) {
        g_free(self->uri);
        self->uri = g_strdup(uri);
    }
    GST_OBJECT_UNLOCK(self);
    if (busy)
        g_set_error(error, GST_URI_ERROR, GST_URI_ERROR_BAD_STATE, "the URI cannot change while a flow is received");
    return !busy;
}

static gboolean start(GstBaseSrc *base) {
    LayercastSrc *self = LAYERCAST_SRC(base);
    lc_join_options options;
    lc_join_options_default(&options, sizeof options);
    GST_OBJECT_LOCK(self);
    gchar *uri = g_strdup(self->uri), *name = g_strdup(self->name);
    options.level = self->level;
    options.playout_ms = self->playout_ms;
    options.flow_within_ms = self->within_ms;
    GST_OBJECT_UNLOCK(self);
    options.name = name;
    int fds[2] = {-1, -1};
    gboolean started = FALSE;
    if (!uri) {
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("No URI: set uri=layercasts://HOST:PORT/FLOW?.."), (NULL));
    } else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
        GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("No pair of sockets: %s", g_strerror(errno)), (NULL));
    } else {
        fcntl(fds[0], F_SETFL, O_NONBLOCK);
        /* The writing end is the library's, also after a failure. */
        if (lc_join_stream(uri, &options, sizeof options, fds[1], NULL, &self->management)) {
            char text[512];
            lc_last_error(text, sizeof text);
            GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ, ("Cannot join %s: %s", uri, text), (NULL));
            close(fds[0]);
        } else {
            GstPoll *poll = gst_poll_new(TRUE);
            gst_poll_fd_init(&self->stream);
            self->stream.fd = fds[0];
            gst_poll_add_fd(poll, &self->stream);
            gst_poll_fd_ctl_read(poll, &self->stream, TRUE);
            GST_OBJECT_LOCK(self);
            self->poll = poll;
            GST_OBJECT_UNLOCK(self);
            started = TRUE;
        }
    }
    g_free(uri);
    g_free(name);
    return started;
}

static gboolean stop(GstBaseSrc *base) {
    LayercastSrc *self = LAYERCAST_SRC(base);
    GST_OBJECT_LOCK(self);
    GstPoll *poll = self->poll;
    self->poll = NULL;
    GST_OBJECT_UNLOCK(self);
    if (poll) {
        lc_close(self->management);
        gst_poll_free(poll);
        close(self->stream.fd);
    }
    return TRUE;
}

static gboolean unlock(GstBaseSrc *base) {
    LayercastSrc *self = LAYERCAST_SRC(base);
    if (self->poll) gst_poll_set_flushing(self->poll, TRUE);
    return TRUE;
}

static gboolean unlock_stop(GstBaseSrc *base) {
    LayercastSrc *self = LAYERCAST_SRC(base);
    if (self->poll) gst_poll_set_flushing(self->poll, FALSE);
    return TRUE;
}

static GstFlowReturn create(GstPushSrc *base, GstBuffer **buffer) {
    LayercastSrc *self = LAYERCAST_SRC(base);
    for (;;) {
        if (gst_poll_wait(self->poll, GST_CLOCK_TIME_NONE) < 0) {
            if (errno == EBUSY) return GST_FLOW_FLUSHING;
            if (errno == EINTR || errno == EAGAIN) continue;
            GST_ELEMENT_ERROR(self, RESOURCE, READ, ("Cannot wait for the flow: %s", g_strerror(errno)), (NULL));
            return GST_FLOW_ERROR;
        }
        guint8 *block = g_malloc(BLOCK);
        gssize taken = read(self->stream.fd, block, BLOCK);
        if (taken > 0) {
            *buffer = gst_buffer_new_wrapped_full(0, block, BLOCK, 0, taken, block, g_free);
            return GST_FLOW_OK;
        }
        int error = errno;
        g_free(block);
        if (taken == 0) return GST_FLOW_EOS;
        if (error == EINTR || error == EAGAIN) continue;
        GST_ELEMENT_ERROR(self, RESOURCE, READ, ("Cannot read the flow: %s", g_strerror(error)), (NULL));
        return GST_FLOW_ERROR;
    }
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec) {
    LayercastSrc *self = LAYERCAST_SRC(object);
    if (id == PROP_URI) {
        GError *error = NULL;
        if (!set_uri(self, g_value_get_string(value), &error)) {
            GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS, ("%s", error->message), (NULL));
            g_error_free(error);
        }
        return;
    }
    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_MEMBER: g_free(self->name); self->name = g_value_dup_string(value); break;
    case PROP_LEVEL: self->level = g_value_get_uint(value); break;
    case PROP_PLAYOUT: self->playout_ms = g_value_get_uint(value); break;
    case PROP_WITHIN: self->within_ms = g_value_get_uint(value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec) {
    LayercastSrc *self = LAYERCAST_SRC(object);
    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_URI: g_value_set_string(value, self->uri); break;
    case PROP_MEMBER: g_value_set_string(value, self->name); break;
    case PROP_LEVEL: g_value_set_uint(value, self->level); break;
    case PROP_PLAYOUT: g_value_set_uint(value, self->playout_ms); break;
    case PROP_WITHIN: g_value_set_uint(value, self->within_ms); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void finalize(GObject *object) {
    LayercastSrc *self = LAYERCAST_SRC(object);
    g_free(self->uri);
    g_free(self->name);
    G_OBJECT_CLASS(layercast_src_parent_class)->finalize(object);
}

static void layercast_src_class_init(LayercastSrcClass *class) {
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseSrcClass *source = GST_BASE_SRC_CLASS(class);
    const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS;
    object->set_property = set_property;
    object->get_property = get_property;
    object->finalize = finalize;
    g_object_class_install_property(object, PROP_URI, g_param_spec_string("uri", "URI",
        "The flow: layercasts://HOST:PORT/FLOW?.. as serve prints it, or layercast://HOST:PORT/FLOW", NULL, flags));
    g_object_class_install_property(object, PROP_MEMBER, g_param_spec_string("member", "Member",
        "Name of the receiver, as the source sees it; null: one is made up", NULL, flags));
    g_object_class_install_property(object, PROP_LEVEL, g_param_spec_uint("level", "Level",
        "Highest level wanted: 0 is the base layer", 0, 2, 2, flags));
    g_object_class_install_property(object, PROP_PLAYOUT, g_param_spec_uint("playout", "Playout",
        "Frames come this long after they were sent, in milliseconds; 0: as the flow specifies", 0, G_MAXUINT, 0, flags));
    g_object_class_install_property(object, PROP_WITHIN, g_param_spec_uint("within", "Within",
        "How long the join may take while no node answers or the flow is missing, in milliseconds; 0: 10 s",
        0, G_MAXUINT, 0, flags));
    gst_element_class_set_static_metadata(element, "Layercast source", "Source/Network",
        "Receives a flow of Layercast as an MPEG transport stream", "The developers of Layercast");
    gst_element_class_add_static_pad_template(element, &template);
    source->start = start;
    source->stop = stop;
    source->unlock = unlock;
    source->unlock_stop = unlock_stop;
    GST_PUSH_SRC_CLASS(class)->create = create;
}

static void layercast_src_init(LayercastSrc *self) {
    self->level = 2;
    gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
    gst_base_src_set_do_timestamp(GST_BASE_SRC(self), TRUE);
}

static GstURIType uri_type(GType type) {
    (void)type;
    return GST_URI_SRC;
}

static const gchar *const *uri_protocols(GType type) {
    static const gchar *protocols[] = {"layercast", "layercasts", NULL};
    (void)type;
    return protocols;
}

static gchar *uri_get(GstURIHandler *handler) {
    LayercastSrc *self = LAYERCAST_SRC(handler);
    GST_OBJECT_LOCK(self);
    gchar *uri = g_strdup(self->uri);
    GST_OBJECT_UNLOCK(self);
    return uri;
}

static gboolean uri_set(GstURIHandler *handler, const gchar *uri, GError **error) {
    return set_uri(LAYERCAST_SRC(handler), uri, error);
}

static void uri_handler_init(gpointer iface, gpointer data) {
    GstURIHandlerInterface *handler = iface;
    (void)data;
    handler->get_type = uri_type;
    handler->get_protocols = uri_protocols;
    handler->get_uri = uri_get;
    handler->set_uri = uri_set;
}
