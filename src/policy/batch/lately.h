#pragma once

#include "base/time.h"

namespace fermata::policy {

inline constexpr double kFewGaps = 3;  // between arrivals

// Whether more may still come: until a second after the last one, or three of their gaps. Never
// where none has come, which an infinite `seen` says.
inline bool has_come_lately(double rate, Time seen, Time now) {
  if (seen.is_infinite()) return false;
  const Duration silent = now - seen;
  return silent <= Duration::seconds(1) || (rate > 0 && silent.seconds() * rate <= kFewGaps);
}

}  // namespace fermata::policy
