/* layercastsink: an MPEG transport stream as a flow of Layercast.
 * This element writes the stream into a socket; the library reads the other end and serves it. */
#include "elements.h"
#include <errno.h>
#include <fcntl.h>
#include <layercast.h>
#include <sys/socket.h>
#include <unistd.h>

#define GST_CAT_DEFAULT layercast_debug

struct _LayercastSink {
    GstBaseSink parent;
    /* Properties; under the lock of the object. */
    gchar *address, *flow, *url, *url_file, *identity, *map;
    guint port, program, delay, lead;
    gboolean renditions;
    /* While it is started. */
    lc_socket stream;
    GstPoll *poll;
    GstPollFD writer;
    GThread *watcher;
};

enum {
    PROP_ADDRESS = 1, PROP_PORT, PROP_FLOW, PROP_URL, PROP_URL_FILE, PROP_IDENTITY, PROP_MAP, PROP_PROGRAM, PROP_RENDITIONS,
    PROP_DELAY, PROP_LEAD
};

static GstStaticPadTemplate template = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("video/mpegts, systemstream=(boolean)true"));

G_DEFINE_TYPE(LayercastSink, layercast_sink, GST_TYPE_BASE_SINK)

static gchar *last_error(void) {
    gchar *text = g_malloc0(1024);
    lc_last_error(text, 1024);
    return text;
}

/* Sets the URL, or forgets it. */
static void set_url(LayercastSink *self, const gchar *url) {
    GST_OBJECT_LOCK(self);
    g_free(self->url);
    self->url = g_strdup(url);
    GST_OBJECT_UNLOCK(self);
    g_object_notify(G_OBJECT(self), "url");
}

/* Waits until the flow can be joined, and makes its URL known; or until it is clear that it never can. */
static gpointer watch(gpointer data) {
    LayercastSink *self = data;
    int status = lc_stream_wait(self->stream, LC_SERVED, -1);
    if (status == LC_ECLOSED || status == LC_EINVAL) return NULL;
    if (status) {
        gchar *text = last_error();
        GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("The stream cannot be served: %s", text), (NULL));
        g_free(text);
        return NULL;
    }
    char url[1024];
    if (lc_group_url(self->stream, url, sizeof url)) return NULL;
    GST_OBJECT_LOCK(self);
    gchar *file = g_strdup(self->url_file);
    GST_OBJECT_UNLOCK(self);
    if (file) {
        gchar *line = g_strconcat(url, "\n", NULL);
        GError *error = NULL;
        /* Whole or not at all: another program may wait for it. */
        if (!g_file_set_contents(file, line, -1, &error)) {
            GST_ELEMENT_ERROR(self, RESOURCE, OPEN_WRITE, ("Cannot write the URL: %s", error->message), (NULL));
            g_clear_error(&error);
        }
        g_free(line);
    }
    g_free(file);
    GST_INFO_OBJECT(self, "serving %s", url);
    set_url(self, url);
    gst_element_post_message(GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self),
        gst_structure_new("layercast-served", "url", G_TYPE_STRING, url, NULL)));
    return NULL;
}

static gboolean start(GstBaseSink *base) {
    LayercastSink *self = LAYERCAST_SINK(base);
    lc_serve_options options;
    lc_serve_options_default(&options, sizeof options);
    GST_OBJECT_LOCK(self);
    gchar *flow = g_strdup(self->flow), *identity = g_strdup(self->identity), *map = g_strdup(self->map);
    const gchar *form = strchr(self->address, ':') ? "[%s]:%u" : "%s:%u";
    gchar *address = g_strdup_printf(form, self->address, self->port);
    options.program = self->program;
    options.renditions = self->renditions;
    options.delay_max_ms = self->delay;
    options.lead_ms = self->lead;
    GST_OBJECT_UNLOCK(self);
    options.identity = identity;
    options.map = map;
    int fds[2] = {-1, -1};
    gboolean started = FALSE;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
        GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("No pair of sockets: %s", g_strerror(errno)), (NULL));
    /* The reading end is the library's, also after a failure. */
    } else if (lc_serve_stream(address, flow, &options, sizeof options, fds[1], &self->stream)) {
        gchar *text = last_error();
        GST_ELEMENT_ERROR(self, RESOURCE, OPEN_WRITE, ("Cannot serve %s at %s: %s", flow, address, text), (NULL));
        g_free(text);
        close(fds[0]);
    } else {
        fcntl(fds[0], F_SETFL, O_NONBLOCK);
        self->poll = gst_poll_new(TRUE);
        gst_poll_fd_init(&self->writer);
        self->writer.fd = fds[0];
        gst_poll_add_fd(self->poll, &self->writer);
        gst_poll_fd_ctl_write(self->poll, &self->writer, TRUE);
        self->watcher = g_thread_new("layercastsink", watch, self);
        started = TRUE;
    }
    g_free(address);
    g_free(flow);
    g_free(identity);
    g_free(map);
    return started;
}

static gboolean stop(GstBaseSink *base) {
    LayercastSink *self = LAYERCAST_SINK(base);
    if (self->poll) {
        lc_close(self->stream);
        g_thread_join(self->watcher);
        gst_poll_free(self->poll);
        self->poll = NULL;
        if (self->writer.fd >= 0) close(self->writer.fd);
        set_url(self, NULL);
    }
    return TRUE;
}

static gboolean unlock(GstBaseSink *base) {
    LayercastSink *self = LAYERCAST_SINK(base);
    if (self->poll) gst_poll_set_flushing(self->poll, TRUE);
    return TRUE;
}

static gboolean unlock_stop(GstBaseSink *base) {
    LayercastSink *self = LAYERCAST_SINK(base);
    if (self->poll) gst_poll_set_flushing(self->poll, FALSE);
    return TRUE;
}

/* Writes all of it; waits while the flow is behind. */
static GstFlowReturn write_all(LayercastSink *self, const guint8 *data, gsize left) {
    while (left > 0) {
        gssize taken = send(self->writer.fd, data, left, MSG_NOSIGNAL);
        if (taken > 0) {
            data += taken;
            left -= taken;
        } else if (errno == EAGAIN) {
            if (gst_poll_wait(self->poll, GST_CLOCK_TIME_NONE) >= 0 || errno == EINTR || errno == EAGAIN) continue;
            if (errno == EBUSY) return GST_FLOW_FLUSHING;
            GST_ELEMENT_ERROR(self, RESOURCE, WRITE, ("Cannot wait for the flow: %s", g_strerror(errno)), (NULL));
            return GST_FLOW_ERROR;
        } else if (errno != EINTR) {
            int error = errno;
            /* The library has closed its end: it says why. */
            if (lc_stream_wait(self->stream, LC_ENDED, 1000)) {
                gchar *text = last_error();
                GST_ELEMENT_ERROR(self, RESOURCE, WRITE, ("The flow ended: %s", text), ("%s", g_strerror(error)));
                g_free(text);
                return GST_FLOW_ERROR;
            }
            return GST_FLOW_EOS;
        }
    }
    return GST_FLOW_OK;
}

static GstFlowReturn render(GstBaseSink *base, GstBuffer *buffer) {
    LayercastSink *self = LAYERCAST_SINK(base);
    for (guint i = 0; i < gst_buffer_n_memory(buffer); i++) {
        GstMapInfo map;
        GstMemory *memory = gst_buffer_peek_memory(buffer, i);
        if (!gst_memory_map(memory, &map, GST_MAP_READ)) {
            GST_ELEMENT_ERROR(self, RESOURCE, READ, ("A buffer cannot be read"), (NULL));
            return GST_FLOW_ERROR;
        }
        GstFlowReturn written = write_all(self, map.data, map.size);
        gst_memory_unmap(memory, &map);
        if (written != GST_FLOW_OK) return written;
    }
    return GST_FLOW_OK;
}

/* The pipeline is over once its last frame has left. */
static gboolean event(GstBaseSink *base, GstEvent *event) {
    LayercastSink *self = LAYERCAST_SINK(base);
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS && self->poll && self->writer.fd >= 0) {
        shutdown(self->writer.fd, SHUT_WR);
        int status;
        /* A state change, or a flush, does not wait for it. */
        while ((status = lc_stream_wait(self->stream, LC_ENDED, 50)) == LC_ETIMEDOUT) {
            gint waited = gst_poll_wait(self->poll, 0);
            if (waited < 0 && errno == EBUSY) {
                gst_event_unref(event);
                return FALSE;
            }
        }
        if (status && status != LC_ECLOSED) {
            /* The watcher has reported it. */
            gst_event_unref(event);
            return FALSE;
        }
    }
    return GST_BASE_SINK_CLASS(layercast_sink_parent_class)->event(base, event);
}

static void set_text(gchar **to, const GValue *value, const gchar *otherwise) {
    g_free(*to);
    const gchar *text = g_value_get_string(value);
    *to = g_strdup(text ? text : otherwise);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec) {
    LayercastSink *self = LAYERCAST_SINK(object);
    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_ADDRESS: set_text(&self->address, value, "0.0.0.0"); break;
    case PROP_PORT: self->port = g_value_get_uint(value); break;
    case PROP_FLOW: set_text(&self->flow, value, "live"); break;
    case PROP_URL_FILE: set_text(&self->url_file, value, NULL); break;
    case PROP_IDENTITY: set_text(&self->identity, value, NULL); break;
    case PROP_MAP: set_text(&self->map, value, NULL); break;
    case PROP_PROGRAM: self->program = g_value_get_uint(value); break;
    case PROP_RENDITIONS: self->renditions = g_value_get_boolean(value); break;
    case PROP_DELAY: self->delay = g_value_get_uint(value); break;
    case PROP_LEAD: self->lead = g_value_get_uint(value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec) {
    LayercastSink *self = LAYERCAST_SINK(object);
    GST_OBJECT_LOCK(self);
    switch (id) {
    case PROP_ADDRESS: g_value_set_string(value, self->address); break;
    case PROP_PORT: g_value_set_uint(value, self->port); break;
    case PROP_FLOW: g_value_set_string(value, self->flow); break;
    case PROP_URL: g_value_set_string(value, self->url); break;
    case PROP_URL_FILE: g_value_set_string(value, self->url_file); break;
    case PROP_IDENTITY: g_value_set_string(value, self->identity); break;
    case PROP_MAP: g_value_set_string(value, self->map); break;
    case PROP_PROGRAM: g_value_set_uint(value, self->program); break;
    case PROP_RENDITIONS: g_value_set_boolean(value, self->renditions); break;
    case PROP_DELAY: g_value_set_uint(value, self->delay); break;
    case PROP_LEAD: g_value_set_uint(value, self->lead); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
    }
    GST_OBJECT_UNLOCK(self);
}

static void finalize(GObject *object) {
    LayercastSink *self = LAYERCAST_SINK(object);
    gchar *texts[] = {self->address, self->flow, self->url, self->url_file, self->identity, self->map};
    for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) g_free(texts[i]);
    G_OBJECT_CLASS(layercast_sink_parent_class)->finalize(object);
}

static void layercast_sink_class_init(LayercastSinkClass *class) {
    GObjectClass *object = G_OBJECT_CLASS(class);
    GstElementClass *element = GST_ELEMENT_CLASS(class);
    GstBaseSinkClass *sink = GST_BASE_SINK_CLASS(class);
    const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
    const GParamFlags constant = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;
    object->set_property = set_property;
    object->get_property = get_property;
    object->finalize = finalize;
    g_object_class_install_property(object, PROP_ADDRESS, g_param_spec_string("address", "Address",
        "IP address of this machine to listen on; 0.0.0.0: all of them", "0.0.0.0", flags));
    g_object_class_install_property(object, PROP_PORT, g_param_spec_uint("port", "Port",
        "UDP port to listen on; media use the next one, or a free one; 0: a free one", 0, 65535, 7400, flags));
    g_object_class_install_property(object, PROP_FLOW, g_param_spec_string("flow", "Flow",
        "Name of the flow, the last part of its URL", "live", flags));
    g_object_class_install_property(object, PROP_URL, g_param_spec_string("url", "URL",
        "What receivers join (layercast join URL, layercastsrc uri=URL); null until the rates of the stream are known, some "
        "seconds after it began. Then also the element message layercast-served has it", NULL, constant));
    g_object_class_install_property(object, PROP_URL_FILE, g_param_spec_string("url-file", "URL file",
        "File that the URL is written to once receivers can join; layercast join @FILE reads it", NULL, flags));
    g_object_class_install_property(object, PROP_IDENTITY, g_param_spec_string("identity", "Identity",
        "File with certificate and key, made if it is missing: with it, address and port the URL stays the same; null: new "
        "each time", NULL, flags));
    g_object_class_install_property(object, PROP_MAP, g_param_spec_string("map", "Map",
        "Which pictures are in which layer: auto, ipb, split, temporal, as layercast serve --map takes it; null: auto", NULL,
        flags));
    g_object_class_install_property(object, PROP_PROGRAM, g_param_spec_uint("program", "Program",
        "Program of the transport stream that is served alone; 0: the first with video", 0, 65535, 0, flags));
    g_object_class_install_property(object, PROP_RENDITIONS, g_param_spec_boolean("renditions", "Renditions",
        "The programs of the transport stream are renditions of one film, and the levels of the flow", FALSE, flags));
    g_object_class_install_property(object, PROP_DELAY, g_param_spec_uint("delay", "Delay",
        "Receivers play frames this long after they were sent, in milliseconds; 0: as long as the path needs", 0, G_MAXUINT,
        1000, flags));
    g_object_class_install_property(object, PROP_LEAD, g_param_spec_uint("lead", "Lead",
        "Most that frames wait so that they leave evenly spaced, in milliseconds; 0: they leave as they come", 0, G_MAXUINT,
        40, flags));
    gst_element_class_set_static_metadata(element, "Layercast sink", "Sink/Network",
        "Serves an MPEG transport stream as a flow of Layercast", "The developers of Layercast");
    gst_element_class_add_static_pad_template(element, &template);
    sink->start = start;
    sink->stop = stop;
    sink->unlock = unlock;
    sink->unlock_stop = unlock_stop;
    sink->render = render;
    sink->event = event;
}

static void layercast_sink_init(LayercastSink *self) {
    self->address = g_strdup("0.0.0.0");
    self->flow = g_strdup("live");
    self->port = 7400;
    self->delay = 1000;
    self->lead = 40;
}
