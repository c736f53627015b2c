#include "serve/call/shapes.h"

#include <algorithm>

#include "base/status.h"
#include "model/request_limits.h"
#include "model/signature.h"

namespace fermata::serve {

absl::Status check_shape(const Tensor& input) {
  if (input.shape.size() > kMostDimensions) {
    return invalid("input {}: its shape has {} dimensions, expected at most {}", input.name,
                   input.shape.size(), kMostDimensions);
  }
  uint64_t count = 1;
  const bool none = std::find(input.shape.begin(), input.shape.end(), 0) != input.shape.end();
  for (int64_t dim : input.shape) {
    if (dim < 0) {
      return invalid("input {}: shape {} has {}, expected dimensions from 0", input.name,
                     to_string(input.shape), dim);
    }
    if (!none && __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count)) {
      return invalid("input {}: shape {} has more elements than 64 bits count", input.name,
                     to_string(input.shape));
    }
  }
  return absl::OkStatus();
}

}  // namespace fermata::serve
