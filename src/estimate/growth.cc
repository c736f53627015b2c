#include "estimate/growth.h"

namespace fermata::estimate {
namespace {

constexpr double kRecent = 16;        // arrivals
constexpr uint32_t kHopeAgain = 100;  // times that the queue gets so long
constexpr size_t kLongest = 256;      // longer queues count as this

}  // namespace

void QueueGrowth::became(size_t waiting) {
  const size_t length = std::min(waiting, kLongest);
  if (length >= counts_.size()) [[unlikely]]
    counts_.resize(length + 1);
  if (waiting > waiting_) {
    Count& count = counts_[at_];
    count.came += static_cast<double>(waiting - waiting_);
    if (count.came >= kRecent) count = {count.promised / 2, count.came / 2, count.times};
    Count& longer = counts_[length];
    if (++longer.times >= kHopeAgain) {
      const double known = std::min(longer.promised, kPromisedByCame * (longer.came + 1));
      longer = {known / 2, longer.came / 2, 0};
    }
  }
  waiting_ = waiting;
  at_ = length;
}

}  // namespace fermata::estimate
