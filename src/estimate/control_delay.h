#pragma once

#include <algorithm>
#include <cmath>

#include "base/quantile_tracker.h"
#include "base/time.h"

namespace fermata::estimate {

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
    const double nanos = std::max(kLeastNanos, static_cast<double>(delay.nanos()));
    tracker_.observe(nanos);
    median_.observe(nanos);
    return publish();
  }
  // Work was refused.
  bool doubted(Time now) {
    if (now - seen_ < kNoEvidence) return false;
    median_.reset(std::min(kUsualNanos, median_.value()));
    if (tracker_.value() <= kFirstNanos) return false;
    seen_ = now;
    tracker_.reset(std::max(kFirstNanos, kKept * tracker_.value()));
    return publish();
  }
  Duration bound() const { return Duration::nanos(static_cast<int64_t>(nanos_)); }
  // What decisions are to take for the deadline of a request that an idle server starts at once:
  // where its budget holds the run and the usual delay, but not the bound, which nearly all starts
  // keep, it still gets its chance.
  Time deadline_when_idle(Time deadline, Time now, Duration run) const {
    return deadline < now + run + usual() ? deadline : std::max(deadline, now + run + bound());
  }
  // Half of the delays are shorter; never above the bound.
  Duration usual() const {
    return std::min(bound(), Duration::nanos(static_cast<int64_t>(median_.value())));
  }

 private:
  static constexpr double kQuantile = 0.99, kFirstNanos = 500'000, kLeastNanos = 1000;
  static constexpr double kUsualNanos = 100'000;        // before anything is measured
  static constexpr double kChange = 0.2, kKept = 0.75;  // in a second without evidence
  static constexpr Duration kNoEvidence = Duration::seconds(1);

  bool publish() {
    if (std::abs(tracker_.value() - nanos_) <= kChange * nanos_) return false;
    nanos_ = tracker_.value();
    return true;
  }

  QuantileTracker tracker_{kQuantile, kFirstNanos}, median_{0.5, kUsualNanos};
  double nanos_ = kFirstNanos;
  Time seen_;
};

}  // namespace fermata::estimate
