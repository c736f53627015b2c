#include "model/answer.h"

#include <algorithm>

#include "model/tensor_values.h"

namespace fermata {

std::optional<int64_t> answered_class(const Tensor& output) {
  if (is_floating(output.datatype)) {
    const auto scores = as_floats(output);
    if (!scores.ok() || scores->empty()) return std::nullopt;
    return std::max_element(scores->begin(), scores->end()) - scores->begin();
  }
  const auto values = as_integers(output);
  if (!values.ok() || values->empty()) return std::nullopt;
  return values->front();
}

}  // namespace fermata
