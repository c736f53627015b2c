#include "engine/services/stage_rows.h"

#include "base/status.h"

namespace fermata::engine {

uint32_t rows_of(const std::vector<Tensor>& outputs, const std::string& name) {
  for (const Tensor& tensor : outputs) {
    if (tensor.name == name && !tensor.shape.empty()) return static_cast<uint32_t>(tensor.shape[0]);
  }
  return 0;
}

absl::Status check_rows(const std::vector<Tensor>& inputs, uint32_t items) {
  for (const Tensor& tensor : inputs) {
    const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (rows == items) continue;
    return invalid("input {} has {} rows, expected {}, one an item", tensor.name, rows, items);
  }
  return absl::OkStatus();
}

void flatten_items(std::vector<Tensor>& outputs) {
  for (Tensor& tensor : outputs) {
    if (tensor.shape.size() < 2) continue;
    tensor.shape[1] *= tensor.shape[0];
    tensor.shape.erase(tensor.shape.begin());
  }
}

}  // namespace fermata::engine
