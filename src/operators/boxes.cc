#include "operators/boxes.h"

#include <cmath>
#include <opencv2/imgproc.hpp>

#include "base/status.h"
#include "operators/values.h"

namespace fermata::operators {

absl::StatusOr<std::vector<Box>> boxes_in(const Tensor& tensor, cv::Size size) {
  const Floats floats(tensor);
  const auto count = static_cast<size_t>(tensor.shape[0]);
  if (count > kMostBoxes) {
    return invalid("'{}' has {} boxes, expected at most {}", tensor.name, count, kMostBoxes);
  }
  std::vector<Box> boxes(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 4; ++c) {
      const float* at = floats.values().data() + (i * 4 + c) * 2;
      if (!std::isfinite(at[0]) || !std::isfinite(at[1])) {
        return invalid("'{}' of box {} is no finite number", tensor.name, i);
      }
      boxes[i][c] = {std::clamp(at[0], 0.0F, static_cast<float>(size.width)),
                     std::clamp(at[1], 0.0F, static_cast<float>(size.height))};
    }
    if (cv::contourArea(boxes[i]) <= 0) {
      const float* at = floats.values().data() + i * 8;
      return invalid("box {} of '{}' from ({}, {}) has no area in a picture of {} x {} pixels", i,
                     tensor.name, at[0], at[1], size.width, size.height);
    }
  }
  return boxes;
}

}  // namespace fermata::operators
