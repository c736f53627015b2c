#include "estimate/rate.h"

#include <algorithm>

namespace fermata::estimate {

bool RateMeter::count(Time now, uint32_t items) {
  if (!started_) {
    started_ = true;
    window_end_ = now + kWindow;
  }
  const bool ended = now >= window_end_;
  // After a silence longer than all windows only zeros are left: no need to walk further.
  for (size_t i = 0; now >= window_end_ && i <= kWindows; ++i) end_window();
  if (now >= window_end_) {
    window_end_ = window_end_ + kWindow * ((now - window_end_).nanos() / kWindow.nanos() + 1);
  }
  current_ += items;
  return ended;
}

void RateMeter::end_window() {
  uint32_t& oldest = counts_[ended_++ % kWindows];
  sum_ += current_;
  sum_ -= oldest;
  oldest = current_;
  current_ = 0;
  window_end_ = window_end_ + kWindow;
}

double RateMeter::per_second() const {
  const uint64_t windows = std::min<uint64_t>(ended_, kWindows);
  return windows == 0
             ? 0
             : static_cast<double>(sum_) / (static_cast<double>(windows) * kWindow.seconds());
}

}  // namespace fermata::estimate
