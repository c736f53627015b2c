#pragma once

#include "absl/status/status.h"
#include "model/tensor.h"

namespace fermata::serve {

// That an input has no more than kMostDimensions, none of them negative, and that its elements can
// be counted. INVALID_ARGUMENT names it, its shape and what was expected.
absl::Status check_shape(const Tensor& input);

}  // namespace fermata::serve
