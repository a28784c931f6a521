/* The GStreamer plug-in of Layercast: layercastsrc and layercastsink. */
#include "elements.h"

GST_DEBUG_CATEGORY(layercast_debug);

static gboolean plugin_init(GstPlugin *plugin) {
    GST_DEBUG_CATEGORY_INIT(layercast_debug, "layercast", 0, "Flows of Layercast");
    return gst_element_register(plugin, "layercastsrc", GST_RANK_PRIMARY, LAYERCAST_TYPE_SRC)
        && gst_element_register(plugin, "layercastsink", GST_RANK_NONE, LAYERCAST_TYPE_SINK);
}

#define PACKAGE "layercast"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, layercast, "Layercast: layered live media", plugin_init,
    "0.2.0", "MIT/X11", "Layercast", "https://github.com/layercast/layercast")
