#pragma once

#include <algorithm>

#include "base/random.h"

namespace fermata {

// Tracks a quantile of a positive quantity that drifts, by stochastic approximation
// (Robbins-Monro) on its logarithm. Surprises beyond 10 % move it by a full step,
// 5 % times the weight of their side, so that one outlier does little and a
// constant is found exactly. O(1), no memory of single values.
class QuantileTracker {
 public:
  // 0 < quantile < 1, start > 0.
  QuantileTracker(double quantile, double start)
      : quantile_(quantile), log_value_(portable_log(start)) {}

  void observe(double value) {
    const double surprise = std::clamp((portable_log(value) - log_value_) / kSoft, -1.0, 1.0);
    log_value_ += kStep * surprise * (surprise > 0 ? quantile_ : 1 - quantile_);
  }
  void reset(double value) { log_value_ = portable_log(value); }
  double value() const { return portable_exp(log_value_); }

 private:
  static constexpr double kStep = 0.05, kSoft = 0.1;
  double quantile_, log_value_;
};

}  // namespace fermata
