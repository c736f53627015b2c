#pragma once

#include <simdjson.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata::load {

// A payload that owns its bytes.
Payload own(std::string bytes);

// Read the protocol's JSON form of a tensor's parts; INVALID_ARGUMENT says what
// stands there and what was expected.
absl::Status read_name(simdjson::dom::element from, Tensor& tensor);
absl::Status read_shape(simdjson::dom::element from, Tensor& tensor);  // -1: any size
absl::Status read_datatype(simdjson::dom::element from, Tensor& tensor);

// {"name": ..., "shape": [...], "datatype": "FP32", "data": [...]}, in any
// order. Unknown members are errors.
absl::StatusOr<Tensor> read_tensor(simdjson::dom::element from);

}  // namespace fermata::load
