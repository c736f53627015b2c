#pragma once

#include <chrono>

#include "base/time.h"

namespace fermata {

// The machine's monotonic clock, for drivers; pure rooms are handed a Time.
inline Time monotonic_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Time::from_nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace fermata
