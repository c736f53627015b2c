#pragma once

#include "base/time.h"

namespace fermata::policy {

// Instants and spans that batchers and queues share.
constexpr Duration kTick = Duration::nanos(1);  // "after" an inclusive bound
constexpr Time kLast = Time::from_nanos(Time::infinite().nanos() - 1);  // yet not never
// After a plan had nothing for a free worker, and nothing has come since.
constexpr Duration kLookAgain = Duration::millis(2);

inline constexpr double kFewGaps = 3;  // between arrivals

// Whether more may still come: until a second after the last one, or three of their gaps. Never
// where none has come, which an infinite `seen` says.
inline bool has_come_lately(double rate, Time seen, Time now) {
  if (seen.is_infinite()) return false;
  const Duration silent = now - seen;
  return silent <= Duration::seconds(1) || (rate > 0 && silent.seconds() * rate <= kFewGaps);
}

}  // namespace fermata::policy
