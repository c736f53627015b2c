#pragma once

#include <simdjson.h>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata {

// The `data` of a tensor in the protocol's JSON, nested or flat, as little-endian
// bytes. `tensor` has its name, datatype and shape. INVALID_ARGUMENT where an
// element is not of the datatype, or their count is not the shape's; FP16 and
// BF16 have no JSON form.
absl::StatusOr<Payload> read_json_data(simdjson::dom::element data, const Tensor& tensor);

}  // namespace fermata
