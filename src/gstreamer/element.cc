// The GStreamer element fermatainfer: sends the frames that pass through it to a stream service and
// attaches what it finds as regions of interest. docs/gstreamer.md says how to use it.
#include <gst/gst.h>
#include <gst/video/gstvideofilter.h>
#include <gst/video/gstvideometa.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gstreamer/inference.h"

namespace {

using fermata::Duration;
using fermata::gstreamer::Inference;

struct Settings {
  std::string service, url = "localhost:8001", client, labels;
  fermata::gstreamer::RegionOutputs outputs;
  guint slo_ms = 100;
  gdouble threshold = 0.3, min_accuracy = 0;
  gboolean wait = FALSE;
};

enum Property : guint {
  kService = 1,
  kUrl,
  kClient,
  kSlo,
  kThreshold,
  kMinAccuracy,
  kLabels,
  kBoxes,
  kScores,
  kClasses,
  kWait,
  kSent,
  kDropped,
};

}  // namespace

G_BEGIN_DECLS
struct FermataInfer {
  GstVideoFilter parent;
  Settings* settings;
  Inference* inference;  // while there are frames
  std::vector<std::string>* labels;
  guint64 sent, dropped;  // of streams before this one
};
struct FermataInferClass {
  GstVideoFilterClass parent;
};
G_END_DECLS

GType fermata_infer_get_type();
G_DEFINE_TYPE(FermataInfer, fermata_infer, GST_TYPE_VIDEO_FILTER)

namespace {

FermataInfer* self_of(gpointer object) { return static_cast<FermataInfer*>(object); }

std::string* text_of(Settings& s, guint property) {
  switch (property) {
    case kService:
      return &s.service;
    case kUrl:
      return &s.url;
    case kClient:
      return &s.client;
    case kLabels:
      return &s.labels;
    case kBoxes:
      return &s.outputs.boxes;
    case kScores:
      return &s.outputs.scores;
    case kClasses:
      return &s.outputs.classes;
    default:
      return nullptr;
  }
}

void set_property(GObject* object, guint property, const GValue* value, GParamSpec* spec) {
  FermataInfer* self = self_of(object);
  GST_OBJECT_LOCK(self);
  Settings& s = *self->settings;
  if (std::string* text = text_of(s, property)) {
    const gchar* given = g_value_get_string(value);
    *text = given == nullptr ? "" : given;
  } else if (property == kSlo) {
    s.slo_ms = g_value_get_uint(value);
  } else if (property == kThreshold) {
    s.threshold = g_value_get_double(value);
  } else if (property == kMinAccuracy) {
    s.min_accuracy = g_value_get_double(value);
  } else if (property == kWait) {
    s.wait = g_value_get_boolean(value);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
  }
  GST_OBJECT_UNLOCK(self);
}

void get_property(GObject* object, guint property, GValue* value, GParamSpec* spec) {
  FermataInfer* self = self_of(object);
  GST_OBJECT_LOCK(self);
  Settings& s = *self->settings;
  fermata::client::Stream::Statistics now;
  if (self->inference != nullptr) now = self->inference->statistics();
  if (const std::string* text = text_of(s, property)) {
    g_value_set_string(value, text->c_str());
  } else if (property == kSlo) {
    g_value_set_uint(value, s.slo_ms);
  } else if (property == kThreshold) {
    g_value_set_double(value, s.threshold);
  } else if (property == kMinAccuracy) {
    g_value_set_double(value, s.min_accuracy);
  } else if (property == kWait) {
    g_value_set_boolean(value, s.wait);
  } else if (property == kSent) {
    g_value_set_uint64(value, self->sent + now.sent);
  } else if (property == kDropped) {
    g_value_set_uint64(value, self->dropped + now.dropped + now.unmapped);
  } else {
    G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, spec);
  }
  GST_OBJECT_UNLOCK(self);
}

// Takes the client away from the element; it is closed outside of the lock.
std::unique_ptr<Inference> taken(FermataInfer* self) {
  GST_OBJECT_LOCK(self);
  std::unique_ptr<Inference> inference(std::exchange(self->inference, nullptr));
  if (inference != nullptr) {
    const auto last = inference->statistics();
    self->sent += last.sent;
    self->dropped += last.dropped + last.unmapped;
  }
  GST_OBJECT_UNLOCK(self);
  return inference;
}

void finalize(GObject* object) {
  FermataInfer* self = self_of(object);
  taken(self).reset();
  delete self->settings;
  delete self->labels;
  G_OBJECT_CLASS(fermata_infer_parent_class)->finalize(object);
}

absl::StatusOr<std::vector<std::string>> read_labels(const std::string& file) {
  std::vector<std::string> labels;
  if (file.empty()) return labels;
  std::ifstream in(file);
  if (!in) return fermata::not_found("labels: {} cannot be read", file);
  for (std::string line; std::getline(in, line);) labels.push_back(line);
  return labels;
}

// Connects as soon as the rate of frames is known.
gboolean set_info(GstVideoFilter* filter, GstCaps*, GstVideoInfo* info, GstCaps*, GstVideoInfo*) {
  FermataInfer* self = self_of(filter);
  taken(self).reset();
  GST_OBJECT_LOCK(self);
  const Settings s = *self->settings;
  GST_OBJECT_UNLOCK(self);
  auto labels = read_labels(s.labels);
  if (!labels.ok()) {
    GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("%s", labels.status().ToString().c_str()),
                      (NULL));
    return FALSE;
  }
  *self->labels = *std::move(labels);
  Inference::Options options{
      .outputs = s.outputs, .threshold = s.threshold, .wait = s.wait == TRUE};
  options.stream.address = s.url;
  options.stream.service = s.service;
  options.stream.client = s.client;
  options.stream.slo = Duration::millis(s.slo_ms);
  // A rate that varies is said to be 0.
  if (info->fps_n > 0) {
    options.stream.rate_rps = static_cast<double>(info->fps_n) / std::max(info->fps_d, 1);
  }
  if (s.min_accuracy > 0) options.stream.min_accuracy = s.min_accuracy;
  auto inference = Inference::open(std::move(options));
  if (!inference.ok()) {
    GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ_WRITE,
                      ("service '%s' at %s: %s", s.service.c_str(), s.url.c_str(),
                       std::string(inference.status().message()).c_str()),
                      (NULL));
    return FALSE;
  }
  GST_OBJECT_LOCK(self);
  self->inference = inference->release();
  GST_OBJECT_UNLOCK(self);
  return TRUE;
}

gboolean stop(GstBaseTransform* transform) {
  taken(self_of(transform)).reset();
  return TRUE;
}

void attach(FermataInfer* self, GstBuffer* buffer, const GstVideoInfo& info,
            const Inference::Seen& seen) {
  gint id = 0;
  for (const auto& region : seen.regions) {
    const auto at = [](float fraction, int whole) {
      return static_cast<guint>(std::lround(fraction * static_cast<float>(whole)));
    };
    const guint x = at(region.x0, info.width), y = at(region.y0, info.height);
    const bool named = region.kind >= 0 && region.kind < std::ssize(*self->labels);
    const std::string label = named              ? (*self->labels)[region.kind]
                              : region.kind >= 0 ? std::to_string(region.kind)
                                                 : "object";
    GstVideoRegionOfInterestMeta* meta = gst_buffer_add_video_region_of_interest_meta(
        buffer, label.c_str(), x, y, at(region.x1, info.width) - x, at(region.y1, info.height) - y);
    meta->id = id++;
    gst_video_region_of_interest_meta_add_param(
        meta, gst_structure_new("fermata", "confidence", G_TYPE_DOUBLE,
                                static_cast<gdouble>(region.score), "class", G_TYPE_INT64,
                                static_cast<gint64>(region.kind), "latency-ms", G_TYPE_DOUBLE,
                                seen.latency.millis(), "input-size", G_TYPE_UINT, seen.input_size,
                                "frame", G_TYPE_UINT64, static_cast<guint64>(seen.frame), nullptr));
  }
}

GstFlowReturn transform_frame_ip(GstVideoFilter* filter, GstVideoFrame* frame) {
  FermataInfer* self = self_of(filter);
  if (self->inference == nullptr) return GST_FLOW_NOT_NEGOTIATED;
  const cv::Mat picture(GST_VIDEO_FRAME_HEIGHT(frame), GST_VIDEO_FRAME_WIDTH(frame), CV_8UC3,
                        GST_VIDEO_FRAME_PLANE_DATA(frame, 0),
                        static_cast<size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(frame, 0)));
  if (const auto seen = self->inference->look(picture)) {
    attach(self, frame->buffer, frame->info, *seen);
  } else if (const absl::Status trouble = self->inference->trouble(); !trouble.ok()) {
    GST_INFO_OBJECT(self, "%s", trouble.ToString().c_str());
  }
  return GST_FLOW_OK;
}

void install_text(GObjectClass* object, guint id, const char* name, const char* about,
                  const char* fallback) {
  g_object_class_install_property(
      object, id,
      g_param_spec_string(name, name, about, fallback,
                          GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS)));
}

void install_properties(GObjectClass* object) {
  constexpr auto kBoth = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS);
  constexpr auto kRead = GParamFlags(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  install_text(object, kService, "service", "The stream service", "");
  install_text(object, kUrl, "url", "HOST:PORT of the server's gRPC", "localhost:8001");
  install_text(object, kClient, "client", "The name that the service knows us by (made up)", "");
  install_text(object, kLabels, "labels", "A file with the name of a class in each line", "");
  install_text(object, kBoxes, "boxes", "Output with boxes, in fractions of the picture", "boxes");
  install_text(object, kScores, "scores", "Output with their scores", "scores");
  install_text(object, kClasses, "classes", "Output with their classes", "classes");
  const auto install = [object](guint id, GParamSpec* spec) {
    g_object_class_install_property(object, id, spec);
  };
  install(kSlo, g_param_spec_uint("slo", "slo", "Milliseconds from a frame to its answer", 1,
                                  3'600'000, 100, kBoth));
  install(kThreshold, g_param_spec_double("threshold", "threshold", "The least score of a region",
                                          0, 1, 0.3, kBoth));
  install(kMinAccuracy,
          g_param_spec_double("min-accuracy", "min-accuracy",
                              "Below which an answer is worth nothing", 0, 1, 0, kBoth));
  install(kWait,
          g_param_spec_boolean("wait", "wait",
                               "Send frames at their rate, each held until its answer is there, "
                               "at most for slo",
                               FALSE, kBoth));
  install(kSent,
          g_param_spec_uint64("sent", "sent", "Frames that were sent", 0, G_MAXUINT64, 0, kRead));
  install(kDropped, g_param_spec_uint64("dropped", "dropped", "Frames that would have waited", 0,
                                        G_MAXUINT64, 0, kRead));
}

void add_pad(GstElementClass* element, const char* name, GstPadDirection direction) {
  GstCaps* caps = gst_caps_from_string(GST_VIDEO_CAPS_MAKE("RGB"));
  gst_element_class_add_pad_template(element,
                                     gst_pad_template_new(name, direction, GST_PAD_ALWAYS, caps));
  gst_caps_unref(caps);
}

gboolean plugin_init(GstPlugin* plugin) {
  return gst_element_register(plugin, "fermatainfer", GST_RANK_NONE, fermata_infer_get_type());
}

}  // namespace

static void fermata_infer_class_init(FermataInferClass* klass) {
  GObjectClass* object = G_OBJECT_CLASS(klass);
  object->set_property = set_property;
  object->get_property = get_property;
  object->finalize = finalize;
  install_properties(object);
  GstElementClass* element = GST_ELEMENT_CLASS(klass);
  add_pad(element, "sink", GST_PAD_SINK);
  add_pad(element, "src", GST_PAD_SRC);
  gst_element_class_set_static_metadata(element, "Fermata inference", "Filter/Analyzer/Video",
                                        "Attaches what a stream service finds as regions",
                                        "The Fermata authors");
  GST_BASE_TRANSFORM_CLASS(klass)->stop = stop;
  GST_VIDEO_FILTER_CLASS(klass)->set_info = set_info;
  GST_VIDEO_FILTER_CLASS(klass)->transform_frame_ip = transform_frame_ip;
}

static void fermata_infer_init(FermataInfer* self) {
  self->settings = new Settings;
  self->labels = new std::vector<std::string>;
}

#define PACKAGE "fermata"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, fermata, "Fermata's stream services",
                  plugin_init, FERMATA_VERSION, "Apache 2.0", "fermata", "Fermata")
