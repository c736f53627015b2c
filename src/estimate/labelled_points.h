#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/tensor.h"

namespace fermata::estimate {

// Points whose class is known, such as training data: features row by row.
struct LabelledPoints {
  uint32_t dimensions = 0;       // of one point, at least 1
  uint32_t classes = 0;          // labels are below it
  std::vector<float> features;   // size() * dimensions, all finite
  std::vector<uint32_t> labels;  // by row

  size_t size() const { return labels.size(); }
  absl::Span<const float> row(size_t i) const {
    return absl::MakeConstSpan(features).subspan(i * dimensions, dimensions);
  }
};

// Labels as classes from 0: whole numbers, shape [n] or [n,1]. `classes` 0: as many as
// the highest label says, at most Confusion::kMostClasses. INVALID_ARGUMENT names the row that is
// out of range.
absl::StatusOr<std::vector<uint32_t>> class_labels(const Tensor& labels, uint32_t& classes);

// Features of shape [n, ...], each row flattened, and their labels. INVALID_ARGUMENT
// where shapes do not fit, there is no row, or a value is not finite as a float. O(n·d).
absl::StatusOr<LabelledPoints> labelled_points(const Tensor& features, const Tensor& labels,
                                               uint32_t classes = 0);

// The rows that are asked for, in that order.
LabelledPoints subset(const LabelledPoints& points, absl::Span<const uint32_t> rows);

}  // namespace fermata::estimate
