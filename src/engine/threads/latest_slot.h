#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace fermata::engine {

// Hands the latest value from one writing thread to one reading thread; what
// the reader did not fetch in time is overwritten. Neither waits for the other:
// of three buffers each owns one, and the third changes hands by an exchange.
template <class T>
class LatestSlot {
 public:
  // Writer. True: the reader has fetched what was here before, so it has to be
  // told that there is something new.
  bool publish(const T& value) {
    buffers_[back_] = value;
    const uint8_t before = middle_.exchange(back_ | kFresh, std::memory_order_acq_rel);
    back_ = before & kIndex;
    return (before & kFresh) == 0;
  }

  // Reader. Null where nothing is new; else valid until the next call.
  const T* fetch() {
    front_ = middle_.exchange(front_, std::memory_order_acq_rel);
    const bool fresh = (front_ & kFresh) != 0;
    front_ &= kIndex;
    return fresh ? &buffers_[front_] : nullptr;
  }

 private:
  static constexpr uint8_t kIndex = 3, kFresh = 4;
  std::array<T, 3> buffers_{};
  uint8_t back_ = 0;   // the writer's
  uint8_t front_ = 1;  // the reader's
  std::atomic<uint8_t> middle_{2};
};

}  // namespace fermata::engine
