#pragma once

#include <cstdint>
#include <optional>

#include "model/tensor.h"

namespace fermata {

// The class that a classifier's output for one item names: the index of the largest of
// its floats (the first of equal ones), or the first of its whole numbers. None where it
// is text, empty, or not as long as its shape says. O(elements).
std::optional<int64_t> answered_class(const Tensor& output);

}  // namespace fermata
