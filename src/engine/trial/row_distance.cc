#include "engine/trial/row_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/signature.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Of the largest number. One step of an 8-bit number that a rounding turned is 0.4 %.
double tolerance(DataType type, bool same_place) {
  switch (type) {
    case DataType::kFp16:
      return same_place ? 5e-3 : 2e-2;
    case DataType::kBf16:
      return same_place ? 2e-2 : 5e-2;
    default:
      return same_place ? 1e-4 : 5e-3;
  }
}

// The largest difference as a part of the largest number; infinite where only one is a number.
double part_of_largest(const std::vector<float>& expected, const std::vector<float>& seen) {
  double largest = 0, furthest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = expected[i], b = seen[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) largest = std::max(largest, std::abs(a));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) return kInfinite;
    largest = std::max({largest, std::abs(a), std::abs(b)});
    furthest = std::max(furthest, std::abs(a - b));
  }
  return furthest == 0 ? 0 : furthest / largest;
}

std::optional<RowDistance> distance(const Tensor& expected, const Tensor& seen, bool same_place) {
  if (expected.shape != seen.shape) {
    return RowDistance{
        expected.name, kInfinite,
        fmt::format("has shape {} and not {}", to_string(seen.shape), to_string(expected.shape))};
  }
  const auto a = expected.data.bytes, b = seen.data.bytes;
  if (std::equal(a.begin(), a.end(), b.begin(), b.end())) return std::nullopt;
  if (!is_floating(expected.datatype)) return RowDistance{expected.name, kInfinite, "differs"};
  const auto before = as_floats(expected), after = as_floats(seen);
  if (!before.ok() || !after.ok()) return std::nullopt;
  const double part = part_of_largest(*before, *after);
  if (part <= tolerance(expected.datatype, same_place)) return std::nullopt;
  if (part == kInfinite) return RowDistance{expected.name, part, "is a number in one of them only"};
  return RowDistance{expected.name, part,
                     part < 0.1
                         ? fmt::format("differs by {:.2g} % of its largest value", 100 * part)
                         : fmt::format("differs by {:.0f} % of its largest value", 100 * part)};
}

}  // namespace

std::optional<RowDistance> row_distance(const std::vector<Tensor>& expected,
                                        const std::vector<Tensor>& seen, bool same_place) {
  for (size_t o = 0; o < expected.size(); ++o) {
    if (auto found = distance(expected[o], seen[o], same_place)) return found;
  }
  return std::nullopt;
}

}  // namespace fermata::engine
