#pragma once

#include <array>
#include <cstddef>

#include "base/time.h"

namespace fermata::estimate {

// How many arrivals are around one arrival: the mean number of others within a window before
// it, which is the mean number within a window after it too. As many as the rate says for Poisson
// arrivals; more where arrivals come in bursts, and decisions are mostly made in bursts.
// Counts up to 64.
class CoArrivals {
 public:
  // `now` never goes back. With an infinite window nothing is counted. O(1) amortised.
  void count(Time now, Duration window);
  double value() const { return value_; }
  // Over which part of the window they spread, in (0, 1]: all of it for Poisson arrivals.
  double spread() const { return spread_; }
  Time last() const { return last_; }  // arrival that was counted

 private:
  static constexpr size_t kMost = 64;

  void forget_first();

  std::array<Time, kMost> recent_;  // a ring of arrivals
  size_t first_ = 0, size_ = 0;
  size_t counted_ = 0;
  Duration ages_;  // of the recent ones, summed, when the last of them came
  Time last_;
  double value_ = 0, spread_ = 1;
};

}  // namespace fermata::estimate
