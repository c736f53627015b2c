#pragma once

#include <cstdint>

#include "base/time.h"

namespace fermata::estimate {

// How far arrivals come in bursts: the variance by the mean of the items that come within one
// window, over the last 256 windows or so. Poisson arrivals have 1, however many they are.
class CountVariation {
 public:
  // `now` never goes back. `window` is how long the windows are that begin from here
  // on; one that has begun ends no later than one that begins here would. With none (<= 0) or an
  // infinite one nothing is counted. O(1).
  [[gnu::always_inline]] void count(Time now, uint32_t items, Duration window) {
    if (window <= Duration() || window.is_infinite()) return;
    if (now >= window_end_ || now + window < window_end_) [[unlikely]]
      begin_window(now, window);
    current_ += items;
  }

  // 1 also before the first window has ended, and no less in the first eight.
  double value() const { return value_; }

 private:
  void begin_window(Time now, Duration window);  // or make the one that has begun shorter
  void end_window(Time now, Duration next);

  Time window_end_ = Time::infinite();
  Duration window_;
  uint32_t current_ = 0;
  double windows_ = 0, mean_ = 0, mean_square_ = 0;
  double value_ = 1;
};

}  // namespace fermata::estimate
