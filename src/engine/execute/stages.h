#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/execute/executor.h"
#include "engine/onnx/onnx_model.h"
#include "model/dynamic_network.h"

namespace fermata::engine {

// The sessions of a model's stages; one of a model that has none.
using Stages = std::vector<std::shared_ptr<const OnnxModel>>;

// The sessions of all stages' files. Blocks. Errors as OnnxModel::load.
absl::StatusOr<std::shared_ptr<const Stages>> load_stages(const std::string& first,
                                                          const OnnxOptions& options);

// The width of the stage of that number for so many items that are left.
using WidthOf = absl::FunctionRef<int64_t(size_t stage, uint32_t left)>;

// Runs a batch through a dynamic network. After each stage those that are sure enough leave, and
// the others go on without gaps. `outputs` are rows of all items, each of the stage that it left.
// Adds to `ran` what ran. Copies features of those that stay where some leave, and outputs once a
// stage that not all came to.
absl::StatusOr<std::vector<Tensor>> run_stages(const Stages& stages, std::vector<OnnxInput> inputs,
                                               const std::vector<std::string>& outputs,
                                               const DynamicNetwork& network, WidthOf width_of,
                                               const OrtRunOptions* options,
                                               std::vector<StageRun>& ran);

}  // namespace fermata::engine
