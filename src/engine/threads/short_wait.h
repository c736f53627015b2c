#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/time.h"

namespace fermata::engine {

// How a thread that waits for another looks again and again for a moment before it sleeps, since to
// be woken costs more than a short wait. A look that was in vain, or in which somebody else took
// the processor, doubles how many of the next waits go without. One thread's.
class ShortWait {
 public:
  // Whether it is there; `there` is asked until then, for no longer than that.
  template <class There>
  bool look(Duration most, There there) {
    if (most <= Duration()) return false;
    if (skipped_ < skips_) {
      ++skipped_;
      return false;
    }
    skipped_ = 0;
    const Time start = monotonic_now();
    for (Time last = start;;) {
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        if (there()) {
          skips_ /= 2;
          return true;
        }
        pause();
      }
      const Time now = monotonic_now();
      if (now - last > kTaken || now - start > most) break;
      last = now;
    }
    skips_ = std::min(2 * skips_ + 1, kMostSkips);
    return there();
  }

  uint32_t skips() const { return skips_; }

 private:
  static constexpr uint32_t kAtOnce = 16, kMostSkips = 255;
  static constexpr Duration kTaken = Duration::micros(20);  // between two looks: by somebody else

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  uint32_t skips_ = 0, skipped_ = 0;  // of waits in a row
};

}  // namespace fermata::engine
