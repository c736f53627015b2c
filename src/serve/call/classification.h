#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "model/tensor.h"

namespace fermata::serve {

// The classification extension: per item the `classes` greatest elements, as a
// BYTES tensor of "value:index", or "value:index:label" where there is a label for the index,
// greatest first, equal ones in the order of their indices. The shape is [classes], led by the item
// count where the tensor's does (`leading_batch`). What it takes grows of the budget of `held`, the
// answer for as long as it is there. INVALID_ARGUMENT for datatypes without an order, and beyond
// kMostRows; RESOURCE_EXHAUSTED. O(elements + rows log rows), expected.
constexpr uint64_t kMostRows = 100'000;  // classes of all items
absl::StatusOr<Tensor> classify(const Tensor& tensor, uint32_t classes, bool leading_batch,
                                const std::vector<std::string>& labels = {}, HeldBytes held = {});

// How many there are at most.
uint64_t rows_of(const Tensor& tensor, uint32_t classes);

}  // namespace fermata::serve
