#include "engine/threads/parker.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace fermata::engine {

void Parker::unpark() {
  if (state_.exchange(kNotified) == kAsleep) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAKE_PRIVATE, 1, nullptr,
            nullptr, 0);
  }
}

void Parker::park_until(Time when) {
  uint32_t awake = kAwake;
  if (state_.compare_exchange_strong(awake, kAsleep)) {
    const int64_t nanos = when.nanos() > 0 ? when.nanos() : 0;
    const timespec at{.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), FUTEX_WAIT_BITSET_PRIVATE, kAsleep,
            when.is_infinite() ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
  }
  state_.exchange(kAwake);
}

}  // namespace fermata::engine
