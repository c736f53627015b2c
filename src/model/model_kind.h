#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "model_config.pb.h"

namespace fermata {

// A kind of model that is served; engine/execute/backend.h has what runs it.
struct ModelKind {
  std::string_view backend;   // as config.pbtxt names it
  std::string_view platform;  // as metadata has it
  std::string_view file;      // in a version's folder, where the configuration names no other
  std::string_view called;    // in errors: "ONNX models"
};

// The first is that of a configuration that names none.
absl::Span<const ModelKind> model_kinds();
const ModelKind& kind_of(const inference::ModelConfig& config);

std::string served_backends();  // "onnxruntime, python or ..."
std::string served_files();     // "model.onnx, model.py or ..."
std::string served_models();    // "ONNX models, Python models (model.py) and ..."

}  // namespace fermata
