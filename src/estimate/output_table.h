#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace fermata::estimate {

// What one model gave for each query of a history, row by row: a score for each class, or
// the numbers of a regression.
struct OutputTable {
  uint32_t width = 0;         // of one output, at least 1
  std::vector<float> values;  // size() * width, all finite

  size_t size() const { return width == 0 ? 0 : values.size() / width; }
  absl::Span<const float> row(size_t i) const {
    return absl::MakeConstSpan(values).subspan(i * width, width);
  }
};

// The class of the highest score, the lowest of several. O(width).
uint32_t class_of(absl::Span<const float> scores);

double euclidean(absl::Span<const float> a, absl::Span<const float> b);

// INVALID_ARGUMENT, with the model, row and column, where there is no table or no row, tables
// differ in their number of rows, or a value is not finite. O(values).
absl::Status check_tables(absl::Span<const OutputTable> by_model);

}  // namespace fermata::estimate
