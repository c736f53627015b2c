#include "model/dynamic_network.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/status.h"

namespace fermata {
namespace {

const FileTensor* tensor_of(const std::vector<FileTensor>& tensors, std::string_view name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [name](const FileTensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

std::optional<std::string> parameter(const inference::ModelConfig& config, std::string_view name) {
  const auto it = config.parameters().find(std::string(name));
  if (it == config.parameters().end()) return std::nullopt;
  return it->second.string_value();
}

template <class T>
std::optional<T> number(const std::string& text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

absl::Status expect(size_t stage, std::string_view kind, const std::vector<FileTensor>& tensors,
                    std::string_view name, DataType datatype) {
  const FileTensor* found = tensor_of(tensors, name);
  if (found != nullptr && found->datatype == datatype) return absl::OkStatus();
  return invalid("stage {} of a dynamic network has no {} '{}' of type {}", stage + 1, kind, name,
                 fermata::name(datatype));
}

absl::Status check_stage(const FileSignature& stage, size_t i, const FileSignature* next) {
  RETURN_IF_ERROR(expect(i, "input", stage.inputs, kWidthInput, DataType::kInt64));
  if (next == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(expect(i, "output", stage.outputs, kConfidence, DataType::kFp32));
  const FileTensor* features = tensor_of(stage.outputs, kFeatures);
  if (features == nullptr || features->datatype == DataType::kBytes) {
    return invalid("stage {} of a dynamic network has no output '{}' of numbers", i + 1, kFeatures);
  }
  if (next->inputs.size() != 2) {
    return invalid("stage {} of a dynamic network has {} inputs, expected '{}' and '{}'", i + 2,
                   next->inputs.size(), kFeatures, kWidthInput);
  }
  return expect(i + 1, "input", next->inputs, kFeatures, features->datatype);
}

}  // namespace

std::string weights_of(const inference::ModelConfig& config) {
  return parameter(config, "weights_of").value_or("");
}

absl::StatusOr<std::optional<DynamicNetwork>> dynamic_network(
    const inference::ModelConfig& config) {
  const auto width = parameter(config, "width"), above = parameter(config, "exit_above");
  const auto widen = parameter(config, "widen");
  if (!width) {
    for (const std::string_view other : kDynamicParameters) {
      if (parameter(config, other)) {
        return invalid("parameters: '{}' is set without 'width', the width of a dynamic network",
                       other);
      }
    }
    return std::nullopt;
  }
  DynamicNetwork network;
  const std::optional<int64_t> which = number<int64_t>(*width);
  if (!which || *which < 0) {
    return invalid("parameters: width is '{}', expected a number from 0", *width);
  }
  network.width = *which;
  if (above) {
    network.exit_above = number<double>(*above);
    if (!network.exit_above || !(*network.exit_above > 0 && *network.exit_above <= 1)) {
      return invalid("parameters: exit_above is '{}', expected a number in (0, 1]", *above);
    }
  }
  if (widen && *widen != "true" && *widen != "false") {
    return invalid("parameters: widen is '{}', expected true or false", *widen);
  }
  network.widen = widen == "true";
  return network;
}

std::vector<std::filesystem::path> stage_files(const std::filesystem::path& first) {
  std::vector<std::filesystem::path> files = {first};
  while (files.size() < kMostStages) {
    auto next = first.parent_path() / ("stage-" + std::to_string(files.size() + 1) + ".onnx");
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(next, ignored)) break;
    files.push_back(std::move(next));
  }
  return files;
}

absl::StatusOr<FileSignature> face_of_stages(const DynamicNetwork& network,
                                             absl::Span<const FileSignature> stages) {
  if (network.exit_above && stages.size() < 2) {
    return invalid("parameters: exit_above is set, but there is no second stage, stage-2.onnx");
  }
  FileSignature face = stages.front();
  std::erase_if(face.inputs, [](const FileTensor& t) { return t.name == kWidthInput; });
  if (face.inputs.empty()) {
    return invalid("a dynamic network has no input beside '{}'", kWidthInput);
  }
  std::erase_if(face.outputs,
                [](const FileTensor& t) { return t.name == kFeatures || t.name == kConfidence; });
  for (size_t i = 0; i < stages.size(); ++i) {
    RETURN_IF_ERROR(check_stage(stages[i], i, i + 1 < stages.size() ? &stages[i + 1] : nullptr));
    for (const FileTensor& output : face.outputs) {
      if (output.datatype == DataType::kBytes) {
        return invalid("output '{}' of a dynamic network is of type BYTES", output.name);
      }
      RETURN_IF_ERROR(expect(i, "output", stages[i].outputs, output.name, output.datatype));
    }
  }
  return face;
}

}  // namespace fermata
