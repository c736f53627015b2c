#pragma once

#include <string>

#include "base/time.h"

namespace fermata::engine {

// Of a request that is rejected: "the budget was 50.000 ms, 20.500 ms of it are left", or, where a
// deadline has passed by the time that this is decided, "the budget was 50.000 ms and ended 1.000
// ms ago". load/rejection reads it.
std::string budget_text(Duration budget, Duration left);

}  // namespace fermata::engine
