#include "estimate/rate.h"

#include <algorithm>

namespace fermata::estimate {

// True: one did, and was not the first that begins.
bool RateMeter::end_windows(Time now) {
  if (window_end_ == kNotStarted) {
    window_end_ = now + kWindow;
    return false;
  }
  // After a silence longer than all windows only zeros are left: no need to walk further.
  for (size_t i = 0; now >= window_end_ && i <= kWindows; ++i) end_window();
  if (now >= window_end_) {
    window_end_ = window_end_ + kWindow * ((now - window_end_).nanos() / kWindow.nanos() + 1);
  }
  const auto windows = static_cast<double>(std::min<uint64_t>(ended_, kWindows));
  per_second_ = static_cast<double>(sum_) / (windows * kWindow.seconds());
  return true;
}

void RateMeter::end_window() {
  uint32_t& oldest = counts_[ended_++ % kWindows];
  sum_ += current_;
  sum_ -= oldest;
  oldest = current_;
  current_ = 0;
  window_end_ = window_end_ + kWindow;
}

}  // namespace fermata::estimate
