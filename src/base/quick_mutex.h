#pragma once

#include <atomic>
#include <cstdint>

namespace fermata {

// A mutex that takes a few instructions where nobody waits for it; the C library's takes seventy,
// which counts where every message passes several. Who waits sleeps.
class QuickMutex {
 public:
  QuickMutex() = default;
  QuickMutex(const QuickMutex&) = delete;
  QuickMutex& operator=(const QuickMutex&) = delete;

  void lock() {
    uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      wait();
    }
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kAwaited = 2;

  [[gnu::noinline]] void wait() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) state_.wait(kAwaited);
  }

  std::atomic<uint32_t> state_ = kFree;
};

}  // namespace fermata
