#include "estimate/labelled_points.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "model/confusion.h"
#include "model/signature.h"
#include "model/tensor_values.h"

namespace fermata::estimate {
namespace {

bool is_finite(float value) { return std::isfinite(value); }

absl::Status check_finite(const Tensor& tensor, const LabelledPoints& points) {
  const auto bad = std::find_if_not(points.features.begin(), points.features.end(), is_finite);
  if (bad == points.features.end()) return absl::OkStatus();
  const size_t at = static_cast<size_t>(bad - points.features.begin());
  return invalid("{}: row {}, column {} is {}, expected a finite number", tensor.name,
                 at / points.dimensions, at % points.dimensions, *bad);
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> class_labels(const Tensor& labels, uint32_t& classes) {
  const Shape& shape = labels.shape;
  if (shape.size() != 1 && !(shape.size() == 2 && shape[1] == 1)) {
    return invalid("{}: has shape {}, expected one label a row: [n]", labels.name,
                   to_string(shape));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> values, as_integers(labels));
  const int64_t limit = classes == 0 ? Confusion::kMostClasses : classes;
  std::vector<uint32_t> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= limit) {
      return invalid("{}: row {} has label {}, expected a class from 0 to {}", labels.name, i,
                     values[i], limit - 1);
    }
    result[i] = static_cast<uint32_t>(values[i]);
  }
  if (classes == 0 && !result.empty()) {
    classes = *std::max_element(result.begin(), result.end()) + 1;
  }
  return result;
}

absl::StatusOr<LabelledPoints> labelled_points(const Tensor& features, const Tensor& labels,
                                               uint32_t classes) {
  const Shape& shape = features.shape;
  if (shape.size() < 2 || shape[0] < 1 || element_count(shape) == 0) {
    return invalid("{}: has shape {}, expected rows of features: [n,d] with n and d from 1",
                   features.name, to_string(shape));
  }
  LabelledPoints points{.classes = classes};
  ASSIGN_OR_RETURN(points.labels, class_labels(labels, points.classes));
  if (static_cast<int64_t>(points.size()) != shape[0]) {
    return invalid("{}: has {} labels, expected {}, one for each row of {}", labels.name,
                   points.size(), shape[0], features.name);
  }
  const uint64_t dimensions = element_count({shape.begin() + 1, shape.end()});
  if (std::max<uint64_t>(dimensions, points.size()) > std::numeric_limits<int32_t>::max()) {
    return invalid("{}: has shape {}, expected at most 2^31 - 1 rows and columns", features.name,
                   to_string(shape));
  }
  points.dimensions = static_cast<uint32_t>(dimensions);
  ASSIGN_OR_RETURN(points.features, as_floats(features));
  RETURN_IF_ERROR(check_finite(features, points));
  return points;
}

LabelledPoints subset(const LabelledPoints& points, absl::Span<const uint32_t> rows) {
  LabelledPoints some{.dimensions = points.dimensions, .classes = points.classes};
  some.features.reserve(rows.size() * points.dimensions);
  some.labels.reserve(rows.size());
  for (const uint32_t row : rows) {
    const absl::Span<const float> values = points.row(row);
    some.features.insert(some.features.end(), values.begin(), values.end());
    some.labels.push_back(points.labels[row]);
  }
  return some;
}

}  // namespace fermata::estimate
