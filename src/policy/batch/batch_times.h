#pragma once

#include <algorithm>
#include <memory>

#include "policy/types.h"

namespace fermata::policy {

// When a decision is made, and from when on the worker it is about is free.
struct Moment {
  Time now, free_at;
};

// ℓ(b) together with the delay bound d(b) = d_ctrl + d_data·b: a batch
// starts when its worker is free and its data has arrived. Items above the
// largest batch are extrapolated, so that a backlog too has a time.
class BatchTimes {
 public:
  BatchTimes(std::shared_ptr<const LatencyTable> latency, DelayBound delay)
      : latency_(std::move(latency)), delay_(delay) {}

  [[gnu::always_inline]] Duration run(uint64_t items) const {
    return (*latency_)(static_cast<uint32_t>(items));
  }
  [[gnu::always_inline]] Duration delay(uint64_t items) const {
    return delay_(static_cast<uint32_t>(items));
  }
  uint32_t max_batch() const { return latency_->max_batch(); }

  [[gnu::always_inline]] Time start(uint64_t items, const Moment& m) const {
    return std::max(m.now + delay(items), m.free_at);
  }
  [[gnu::always_inline]] Time finish(uint64_t items, const Moment& m) const {
    return start(items, m) + run(items);
  }
  // The last moment to decide on a batch of so many items that ends by the deadline.
  [[gnu::always_inline]] Time decide_by(Time deadline, uint64_t items) const {
    return deadline - (run(items) + delay(items));
  }
  // The most items (0..max_batch) that end by the deadline. O(log max_batch).
  uint32_t largest(Time deadline, const Moment& m) const {
    uint32_t low = 0, high = latency_->largest_within(deadline - m.free_at);
    if (finish(high, m) <= deadline) return high;
    while (low + 1 < high) {
      const uint32_t middle = (low + high) / 2;
      (finish(middle, m) <= deadline ? low : high) = middle;
    }
    return low;
  }

 private:
  std::shared_ptr<const LatencyTable> latency_;
  DelayBound delay_;
};

}  // namespace fermata::policy
