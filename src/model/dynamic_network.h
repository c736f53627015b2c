#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/model_config.h"
#include "model_config.pb.h"

namespace fermata {

// A dynamic DNN (Jellyfish, section 5) has one set of weights for networks of several widths, and
// stages with an exit after each but the last. Its files take the width as an input, `width`, INT64
// [1]: model.onnx the first stage, stage-2.onnx the next. Each but the last gives `features`, which
// the next one takes, and `confidence`, FP32 [batch, 1]; all give the outputs that clients see.
// A model of the repository is one of its widths.
struct DynamicNetwork {
  int64_t width = 0;
  std::optional<double> exit_above;  // items that are surer leave after the stage
  bool widen = false;                // where some left, later stages may be wider
};

inline constexpr const char kWidthInput[] = "width";
inline constexpr const char kFeatures[] = "features";
inline constexpr const char kConfidence[] = "confidence";
inline constexpr size_t kMostStages = 8;
// The names in `parameters` that it has.
inline constexpr std::string_view kDynamicParameters[] = {"width", "exit_above", "widen",
                                                          "weights_of"};

// What `parameters` says: width, exit_above, widen. None: a network of one width and stage.
// INVALID_ARGUMENT names the parameter, what stands there and what was expected.
absl::StatusOr<std::optional<DynamicNetwork>> dynamic_network(const inference::ModelConfig& config);

// The model whose files this one runs, `parameters.weights_of`; empty: its own.
std::string weights_of(const inference::ModelConfig& config);

// The files of all stages, as many as there are, the first first.
std::vector<std::filesystem::path> stage_files(const std::filesystem::path& first);

// Checks the stages of a dynamic network, the first in front, against what they have to take and
// give; what is left is its face. INVALID_ARGUMENT names the stage and the tensor.
absl::StatusOr<FileSignature> face_of_stages(const DynamicNetwork& network,
                                             absl::Span<const FileSignature> stages);

}  // namespace fermata
