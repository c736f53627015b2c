#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/onnx/onnx_api.h"
#include "engine/onnx/onnx_model.h"
#include "model/tensor.h"

namespace fermata::engine {

// A value that borrows `input`'s memory; BYTES are copied into the library's strings.
absl::StatusOr<OrtPtr<OrtValue>> make_value(const OnnxInput& input);

// The tensor that a value holds, without a copy unless it lies in the memory of one of
// `inputs` (a model may hand an input through) or holds strings.
absl::StatusOr<Tensor> read_value(const std::string& name, OrtPtr<OrtValue> value,
                                  const std::vector<OnnxInput>& inputs);

}  // namespace fermata::engine
