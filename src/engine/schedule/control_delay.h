#pragma once

#include <algorithm>
#include <cmath>

#include "base/quantile_tracker.h"
#include "base/time.h"

namespace fermata::engine {

// The bound on the delay between a decision and the start of its batch: 99 % are shorter. Late
// wakes count whether a batch came of them or a refusal, or the bound could stay so low that
// everything is refused and nothing is left to measure; and a bound that refuses work while
// nothing is measured is doubted down to where it began, or one busy moment would refuse everything
// for good. O(1).
class ControlDelay {
 public:
  // True where bound() has changed, which it does by more than a fifth at once.
  bool observe(Duration delay, Time now) {
    seen_ = now;
    tracker_.observe(std::max(kLeastNanos, static_cast<double>(delay.nanos())));
    return publish();
  }
  // Work was refused.
  bool doubted(Time now) {
    if (now - seen_ < kNoEvidence || tracker_.value() <= kFirstNanos) return false;
    seen_ = now;
    tracker_.reset(std::max(kFirstNanos, kKept * tracker_.value()));
    return publish();
  }
  Duration bound() const { return Duration::nanos(static_cast<int64_t>(nanos_)); }

 private:
  static constexpr double kQuantile = 0.99, kFirstNanos = 500'000, kLeastNanos = 1000;
  static constexpr double kChange = 0.2, kKept = 0.75;  // in a second without evidence
  static constexpr Duration kNoEvidence = Duration::seconds(1);

  bool publish() {
    if (std::abs(tracker_.value() - nanos_) <= kChange * nanos_) return false;
    nanos_ = tracker_.value();
    return true;
  }

  QuantileTracker tracker_{kQuantile, kFirstNanos};
  double nanos_ = kFirstNanos;
  Time seen_;
};

}  // namespace fermata::engine
