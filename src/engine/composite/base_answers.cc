#include "engine/composite/base_answers.h"

#include <cmath>
#include <cstring>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "model/tensor_values.h"

namespace fermata::engine {

absl::StatusOr<std::vector<float>> numbers_of(const Tensor& answer, uint32_t width) {
  ASSIGN_OR_RETURN(std::vector<float> values, as_floats(answer));
  if (values.size() != width) {
    return error(absl::StatusCode::kInternal, "its answer has {} numbers, expected {}",
                 values.size(), width);
  }
  const auto odd = absl::c_find_if(values, [](float v) { return !std::isfinite(v); });
  if (odd == values.end()) return values;
  return error(absl::StatusCode::kInternal, "its answer has {} at place {}, expected numbers",
               std::isnan(*odd) ? "NaN" : "infinity", odd - values.begin());
}

Tensor answered_by(estimate::Subset item) {
  return {"answered_by", DataType::kUint32, {1}, payload_of(std::vector<uint32_t>{item})};
}

std::vector<estimate::Subset> answered_by(const std::vector<Tensor>& outputs) {
  if (outputs.empty()) return {};
  const auto bytes = outputs.front().data.bytes;
  std::vector<estimate::Subset> by_item(bytes.size() / sizeof(estimate::Subset));
  if (!by_item.empty()) {
    std::memcpy(by_item.data(), bytes.data(), by_item.size() * sizeof(estimate::Subset));
  }
  return by_item;
}

}  // namespace fermata::engine
