#include "estimate/co_arrivals.h"

#include <algorithm>

namespace fermata::estimate {
namespace {

constexpr size_t kRemembered = 256;  // arrivals that the mean is about

}  // namespace

void CoArrivals::count(Time now, Duration window) {
  if (window.is_infinite()) return;
  ages_ += (now - last_) * static_cast<int64_t>(size_);
  last_ = now;
  while (size_ > 0 && recent_[first_] + window < now) forget_first();
  counted_ = std::min(counted_ + 1, kRemembered);
  value_ += (static_cast<double>(size_) - value_) / static_cast<double>(counted_);
  if (size_ > 0) {
    const double mean_age = ages_.seconds() / static_cast<double>(size_) / window.seconds();
    const double weight = static_cast<double>(size_) / static_cast<double>(kRemembered);
    spread_ += (std::min(1.0, 2 * mean_age) - spread_) * std::min(1.0, weight);
  }
  if (size_ == kMost) forget_first();
  recent_[(first_ + size_++) % kMost] = now;
}

void CoArrivals::forget_first() {
  ages_ -= last_ - recent_[first_];
  first_ = (first_ + 1) % kMost;
  --size_;
}

}  // namespace fermata::estimate
