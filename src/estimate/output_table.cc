#include "estimate/output_table.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace fermata::estimate {

uint32_t class_of(absl::Span<const float> scores) {
  return static_cast<uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

double euclidean(absl::Span<const float> a, absl::Span<const float> b) {
  FERMATA_CHECK(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

absl::Status check_tables(absl::Span<const OutputTable> by_model) {
  if (by_model.empty()) return invalid("there is no base model, expected at least one");
  for (size_t k = 0; k < by_model.size(); ++k) {
    const OutputTable& table = by_model[k];
    if (table.size() == 0) return invalid("model {} has no outputs: the history is empty", k);
    if (table.values.size() % table.width != 0 || table.size() != by_model[0].size()) {
      return invalid("model {} has {} outputs, model 0 has {}", k, table.size(),
                     by_model[0].size());
    }
    const auto bad = std::find_if_not(table.values.begin(), table.values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad == table.values.end()) continue;
    const auto at = static_cast<size_t>(bad - table.values.begin());
    return invalid("model {}: output {}, column {} is {}, expected a finite number", k,
                   at / table.width, at % table.width, *bad);
  }
  return absl::OkStatus();
}

}  // namespace fermata::estimate
