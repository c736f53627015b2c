#include "estimate/weighted_quantile.h"

#include <algorithm>

namespace fermata::estimate {

void WeightedQuantile::add(Duration value, double weight) {
  if (recent_.size() < kRemembered) {
    recent_.push_back({value, weight});
  } else {
    recent_[added_ % kRemembered] = {value, weight};
  }
  if (++added_ <= kEvery || added_ % kEvery == 0) compute();
}

// The few above the quantile are found by sorting those that are not zero: most waits are.
void WeightedQuantile::compute() {
  double above = 0;
  sorted_.clear();
  for (const Sample& sample : recent_) {
    above += sample.weight;
    if (sample.value > Duration()) sorted_.push_back(sample);
  }
  above *= 1 - quantile_;
  std::sort(sorted_.begin(), sorted_.end(),
            [](const Sample& a, const Sample& b) { return a.value > b.value; });
  value_ = Duration();
  for (const Sample& sample : sorted_) {
    above -= sample.weight;
    if (above < 0) {
      value_ = sample.value;
      return;
    }
  }
}

}  // namespace fermata::estimate
