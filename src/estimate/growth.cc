#include "estimate/growth.h"

#include <algorithm>

namespace fermata::estimate {
namespace {

constexpr double kPromisedByCame = 8;  // times as many promised as came
constexpr double kRecent = 16;         // arrivals
constexpr uint32_t kHopeAgain = 100;   // times that the queue gets so long
constexpr size_t kLongest = 256;       // longer queues count as this

}  // namespace

void QueueGrowth::length(size_t waiting, Time now, double per_second) {
  const size_t length = std::min(waiting, kLongest);
  if (length >= counts_.size()) [[unlikely]]
    counts_.resize(length + 1);
  Count& count = counts_[std::min(waiting_, kLongest)];
  count.promised += per_second_ * (now - since_).seconds();
  if (waiting > waiting_) {
    count.came += static_cast<double>(waiting - waiting_);
    if (count.came >= kRecent) count = {count.promised / 2, count.came / 2, count.times};
    Count& longer = counts_[length];
    if (++longer.times >= kHopeAgain) {
      const double known = std::min(longer.promised, kPromisedByCame * (longer.came + 1));
      longer = {known / 2, longer.came / 2, 0};
    }
  }
  waiting_ = waiting;
  per_second_ = per_second;
  since_ = now;
}

Time QueueGrowth::hope() const {
  const Count& count = counts_[std::min(waiting_, kLongest)];
  const double left = kPromisedByCame * (count.came + 1) - count.promised;
  if (left <= 0) return since_;
  return per_second_ > 0 ? since_ + Duration::from_seconds(left / per_second_) : Time::infinite();
}

}  // namespace fermata::estimate
