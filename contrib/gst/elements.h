/* The elements of the plug-in. */
#ifndef LAYERCAST_ELEMENTS_H
#define LAYERCAST_ELEMENTS_H

#include <gst/base/gstbasesink.h>
#include <gst/base/gstpushsrc.h>
#include <gst/gst.h>

GST_DEBUG_CATEGORY_EXTERN(layercast_debug);

#define LAYERCAST_TYPE_SRC (layercast_src_get_type())
G_DECLARE_FINAL_TYPE(LayercastSrc, layercast_src, LAYERCAST, SRC, GstPushSrc)

#define LAYERCAST_TYPE_SINK (layercast_sink_get_type())
G_DECLARE_FINAL_TYPE(LayercastSink, layercast_sink, LAYERCAST, SINK, GstBaseSink)

#endif
