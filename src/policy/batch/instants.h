#pragma once

#include "base/time.h"

namespace fermata::policy {

// Instants and spans that batchers and queues share.
constexpr Duration kTick = Duration::nanos(1);  // "after" an inclusive bound
constexpr Time kLast = Time::from_nanos(Time::infinite().nanos() - 1);  // yet not never
// After a plan had nothing for a free worker, and nothing has come since.
constexpr Duration kLookAgain = Duration::millis(2);

}  // namespace fermata::policy
