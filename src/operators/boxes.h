#pragma once

#include <array>
#include <opencv2/core.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata::operators {

// Corners clockwise from the top left.
using Box = std::array<cv::Point2f, 4>;

// The boxes of FP32 [n, 4, 2], corners moved into a picture of this size. INVALID_ARGUMENT where
// one lies outside of it, has no area or is no numbers, and for more than kMostBoxes.
absl::StatusOr<std::vector<Box>> boxes_in(const Tensor& tensor, cv::Size size);
inline constexpr size_t kMostBoxes = 1000;

}  // namespace fermata::operators
