// Whether a stage of a pipeline runs, by what an earlier one put out.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/services/pipeline.h"
#include "model/tensor_values.h"

namespace fermata::engine {
namespace {

using Element = Condition::Element;

constexpr const char* kChoices =
    "expected `element` with one of max, min, argmax, any, or the index of one";

bool holds_of(const Condition& condition, double value) {
  switch (condition.kind) {
    case Condition::Kind::kAbove:
      return value > condition.values[0];
    case Condition::Kind::kBelow:
      return value < condition.values[0];
    case Condition::Kind::kAmong:
      // As the tensor has them: 1.1 is among floats what it is as one.
      return absl::c_any_of(condition.values, [value](double one) {
        return static_cast<float>(one) == static_cast<float>(value);
      });
  }
  return false;
}

// Where the first largest (or smallest) element stands; none where none is a number.
std::optional<size_t> place_of(std::span<const float> item, bool largest) {
  std::optional<size_t> best;
  for (size_t i = 0; i < item.size(); ++i) {
    if (std::isnan(item[i])) continue;
    if (!best || (largest ? item[i] > item[*best] : item[i] < item[*best])) best = i;
  }
  return best;
}

bool holds_of(const Condition& condition, std::span<const float> item) {
  const auto is = [&condition](float value) { return holds_of(condition, value); };
  switch (condition.element) {
    case Element::kAny:
      return absl::c_any_of(item, is);
    case Element::kOnly:
    case Element::kIndex:
      return condition.index < item.size() && is(item[condition.index]);
    default:
      break;
  }
  const std::optional<size_t> place = place_of(item, condition.element != Element::kMin);
  if (!place) return false;
  return condition.element == Element::kArgmax ? holds_of(condition, static_cast<double>(*place))
                                               : is(item[*place]);
}

}  // namespace

absl::Status check_condition(const Condition& condition, const Shape& item) {
  const bool free = absl::c_linear_search(item, -1);
  const uint64_t elements = free ? 0 : element_count(item);
  if (condition.element == Element::kOnly && (free || elements != 1)) {
    return invalid("its items have the shape {}, so several elements; {}", to_string(item),
                   kChoices);
  }
  if (condition.element == Element::kIndex && !free && condition.index >= elements) {
    return invalid("`element` is {}, but its items have {} elements; {}", condition.index, elements,
                   kChoices);
  }
  return absl::OkStatus();
}

bool Pipeline::When::holds(const Tensor& tensor, bool by_item) const {
  const auto values = as_floats(tensor);
  if (!values.ok() || values->empty()) return false;
  const auto items = by_item && !tensor.shape.empty() ? static_cast<size_t>(tensor.shape[0]) : 1;
  const size_t each = values->size() / items;  // no dimension is 0: there are elements
  const std::span<const float> all(*values);
  for (size_t i = 0; i < items; ++i) {
    if (holds_of(condition, all.subspan(i * each, each))) return true;
  }
  return false;
}

}  // namespace fermata::engine
