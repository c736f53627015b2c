#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace fermata::estimate {

// Whether a queue still grows while so many wait in it. Clients that wait for their answers send
// nothing meanwhile: eight of them are a rate, yet nobody comes as the ninth while these eight
// wait. For each length of the queue, how many came while it had that length, and how many λ
// promised. It counts the last 8 or 16 that came, and hopes anew once in a hundred times, so that
// it follows clients who come and go.
class QueueGrowth {
 public:
  // The queue has had this length from `now` on, and `per_second` are expected. `now` never goes
  // back. O(1); memory by the longest queue, up to 256.
  void length(size_t waiting, Time now, double per_second) {
    counts_[at_].promised += per_second_ * (now - since_).seconds();
    if (waiting != waiting_) became(waiting);
    per_second_ = per_second;
    since_ = now;
  }

  // Until when one more may be hoped for: until 8 times as many were promised as came. Where
  // arrivals do not depend on who waits, one in 3,000 takes so long, or fewer.
  Time hope() const {
    const Count& count = counts_[at_];
    const double left = kPromisedByCame * (count.came + 1) - count.promised;
    if (left <= 0) return since_;
    return per_second_ > 0 ? since_ + Duration::from_seconds(left / per_second_) : Time::infinite();
  }

 private:
  static constexpr double kPromisedByCame = 8;  // times as many promised as came
  static constexpr double kRecent = 16;         // arrivals
  static constexpr uint32_t kHopeAgain = 100;   // times that the queue gets so long
  static constexpr size_t kLongest = 256;       // longer queues count as this

  struct Count {
    double promised = 0, came = 0;
    uint32_t times = 0;  // it got so long, since it last hoped anew
  };
  void became(size_t waiting) {
    const size_t length = std::min(waiting, kLongest);
    if (length >= counts_.size()) [[unlikely]]
      counts_.resize(length + 1);
    if (waiting > waiting_) {
      Count& count = counts_[at_];
      count.came += static_cast<double>(waiting - waiting_);
      if (count.came >= kRecent) count = {count.promised / 2, count.came / 2, count.times};
      if (++counts_[length].times >= kHopeAgain) hope_anew(counts_[length]);
    }
    waiting_ = waiting;
    at_ = length;
  }
  static void hope_anew(Count& longer);

  std::vector<Count> counts_ = std::vector<Count>(1);  // by length
  size_t waiting_ = 0, at_ = 0;                        // at_: its place in counts_
  double per_second_ = 0;
  Time since_;
};

}  // namespace fermata::estimate
