#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace fermata::cluster {

// Durations in messages.

inline uint64_t positive(Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(duration.nanos(), 0));
}

// Differences of such are still numbers.
inline Duration bounded(int64_t nanos) {
  const int64_t most = Duration::infinite().nanos();
  return Duration::nanos(std::clamp(nanos, -most, most));
}

inline constexpr int64_t kMostNanos = int64_t{1} << 60;  // what is believed of a time

inline Duration believed(uint64_t nanos) {
  return Duration::nanos(static_cast<int64_t>(std::min<uint64_t>(nanos, kMostNanos)));
}

}  // namespace fermata::cluster
