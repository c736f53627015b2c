#pragma once

#include <algorithm>

#include "base/quantile_tracker.h"
#include "base/time.h"

namespace fermata::estimate {

// How long it takes from a batch's end until all of its requests are answered: 99 % of batches take
// less. It is in no latency of a model, and a batch that ends at a deadline would miss it by this.
// O(1).
class ReplyDelay {
 public:
  void observe(Duration took) {
    tracker_.observe(std::max(1.0, static_cast<double>(took.nanos())));
  }
  // What decisions keep free of the time that a request has left. At most a tenth of that, so that
  // a busy moment refuses no request that would do without.
  Duration allowance(Duration left) const {
    const Duration bound = Duration::nanos(static_cast<int64_t>(tracker_.value()));
    return std::max(Duration(), std::min(bound, left.scaled(kMost)));
  }

 private:
  static constexpr double kQuantile = 0.99, kFirstNanos = 20'000, kMost = 0.1;

  QuantileTracker tracker_{kQuantile, kFirstNanos};
};

}  // namespace fermata::estimate
