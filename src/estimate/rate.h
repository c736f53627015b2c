#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/time.h"

namespace fermata::estimate {

// λ: items a second as the mean of the last 100 windows of 50 ms, which is what
// Symphony's scheduler keeps per model. Before the first window has ended there
// is no rate; before the hundredth, the mean is over those that have.
class RateMeter {
 public:
  // `now` never goes back. True when a window ended since the last call, so
  // that what is derived from the rate is worth computing again. O(1) amortised.
  [[gnu::always_inline]] bool count(Time now, uint32_t items) {
    const bool ended = now >= window_end_ && end_windows(now);
    current_ += items;
    return ended;
  }

  bool known() const { return ended_ > 0; }
  double per_second() const { return per_second_; }

  static constexpr Duration kWindow = Duration::millis(50);  // so often the rate changes

 private:
  static constexpr size_t kWindows = 100;
  static constexpr Time kNotStarted = Time::from_nanos(std::numeric_limits<int64_t>::min());

  bool end_windows(Time now);
  void end_window();

  std::array<uint32_t, kWindows> counts_{};
  uint64_t sum_ = 0, ended_ = 0;
  uint32_t current_ = 0;
  double per_second_ = 0;
  Time window_end_ = kNotStarted;
};

}  // namespace fermata::estimate
