#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/tensor.h"

// What stages of a pipeline hand on: tensors whose first dimension counts items.
namespace fermata::engine {

// Of the output of this name; 0 where there is none.
uint32_t rows_of(const std::vector<Tensor>& outputs, const std::string& name);

// INVALID_ARGUMENT names the input that has not one row for each item of a stage that runs its
// items one by one.
absl::Status check_rows(const std::vector<Tensor>& inputs, uint32_t items);

// Of a batch, in which every item made equally many: all that it made, one after the other.
void flatten_items(std::vector<Tensor>& outputs);

}  // namespace fermata::engine
