#pragma once

#include <optional>
#include <vector>

#include "load/records.h"
#include "model/tensor.h"

namespace fermata::load {

// Whether the first output says what the label says: a text or whole number
// equals it, or the largest of several floats stands at its index. None where
// the two cannot be compared.
std::optional<bool> agrees(const Label& label, const std::vector<Tensor>& outputs);

}  // namespace fermata::load
