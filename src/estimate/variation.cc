#include "estimate/variation.h"

#include <algorithm>

#include "base/random.h"

namespace fermata::estimate {
namespace {

constexpr double kMemory = 256;  // windows
constexpr double kFew = 8;       // too few to tell that they are all alike

}  // namespace

void CountVariation::begin_window(Time now, Duration window) {
  if (now >= window_end_) return end_window(now, window);
  window_ = window;
  window_end_ = now + window;
}

void CountVariation::end_window(Time now, Duration next) {
  windows_ = std::min(windows_ + 1, kMemory);
  const double count = current_;
  mean_ += (count - mean_) / windows_;
  mean_square_ += (count * count - mean_square_) / windows_;
  current_ = 0;
  // Nothing came in the windows between the one that ended and this one.
  const int64_t silent = (now - window_end_).nanos() / window_.nanos();
  const double kept =
      silent == 0 ? 1 : portable_pow(1 - 1 / kMemory, static_cast<uint64_t>(silent));
  mean_ *= kept;
  mean_square_ *= kept;
  window_end_ = window_end_ + window_ * silent + next;
  window_ = next;
  value_ = mean_ > 0 ? std::max(mean_square_ / mean_ - mean_, 0.0) : 1;
  if (windows_ < kFew) value_ = std::max(value_, 1.0);
}

}  // namespace fermata::estimate
