#include "model/model_kind.h"

#include <array>

namespace fermata {
namespace {

constexpr std::array kKinds = {
    ModelKind{"onnxruntime", "onnxruntime_onnx", "model.onnx", "ONNX models"},
    ModelKind{"python", "python", "model.py", "Python models (model.py)"},
    ModelKind{"openvino", "openvino", "model.xml", "OpenVINO models (model.xml)"}};

std::string listed(std::string_view ModelKind::*what, std::string_view last) {
  std::string list;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (i > 0) list += i + 1 == kKinds.size() ? last : ", ";
    list += kKinds[i].*what;
  }
  return list;
}

}  // namespace

absl::Span<const ModelKind> model_kinds() { return kKinds; }

const ModelKind& kind_of(const inference::ModelConfig& config) {
  for (const ModelKind& kind : kKinds) {
    if (config.backend() == kind.backend) return kind;
  }
  return kKinds.front();
}

std::string served_backends() { return listed(&ModelKind::backend, " or "); }
std::string served_files() { return listed(&ModelKind::file, " or "); }
std::string served_models() { return listed(&ModelKind::called, " and "); }

}  // namespace fermata
