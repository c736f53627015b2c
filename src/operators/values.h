#pragma once

#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/signature.h"

namespace fermata::operators {

// The bytes of a tensor as numbers. They need not be aligned where they come from a message, so
// they are copied there; O(bytes) at the most.
class Floats {
 public:
  explicit Floats(const Tensor& tensor);
  absl::Span<const float> values() const { return values_; }

 private:
  std::vector<float> copied_;
  absl::Span<const float> values_;
};

// A tensor of these values, whose number is that of the shape's elements.
Tensor floats(std::string name, Shape shape, std::vector<float> values);
Tensor whole_numbers(std::string name, Shape shape, std::vector<int64_t> values);
// BYTES [n].
Tensor texts(std::string name, const std::vector<std::string>& values);
// The one element of BYTES [1].
absl::StatusOr<absl::Span<const std::byte>> only_text(const Tensor& tensor);

// A picture's pixels where they are: valid while the tensor is, not to be written.
cv::Mat picture(const Tensor& tensor);
// Takes over the memory of a picture that owns its own; copies any other.
Tensor picture(std::string name, const cv::Mat& image);

}  // namespace fermata::operators
