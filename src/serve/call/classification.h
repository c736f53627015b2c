#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata::serve {

// The classification extension: per item the `classes` greatest elements, as a
// BYTES tensor of "value:index", or "value:index:label" where there is a label for the index,
// greatest first, equal ones in the order of their indices. The shape is [classes], led by the item
// count where the tensor's does (`leading_batch`). INVALID_ARGUMENT for datatypes without an order.
absl::StatusOr<Tensor> classify(const Tensor& tensor, uint32_t classes, bool leading_batch,
                                const std::vector<std::string>& labels = {});

}  // namespace fermata::serve
