#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace fermata::cluster {

// From one beat to the next: several in a silence, and soon enough that who leaves is heard.
inline std::chrono::nanoseconds beat_period(Duration silence) {
  return std::chrono::nanoseconds(std::min(silence / 4, Duration::millis(100)).nanos());
}

// To a frontend, which knows by them at a request's deadline that its scheduler is there.
inline std::chrono::nanoseconds frontend_beat_period(Duration silence) {
  return std::min<std::chrono::nanoseconds>(beat_period(silence), std::chrono::milliseconds(15));
}

// For so long the active scheduler may say nothing to those that stand by: all parts have left it,
// and it is no disk that was busy for a moment.
inline Duration lease_of(Duration silence) { return std::max(silence * 2, Duration::seconds(1)); }

}  // namespace fermata::cluster
