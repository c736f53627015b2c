#pragma once

#include "absl/status/status.h"

namespace fermata::engine {

// From now on this process and what it becomes: opens files to read them only and changes none,
// opens no socket, starts no process, signals and watches no other, and keeps no privilege of
// root's but to read files. Threads it may start. UNAVAILABLE where the system denies it that.
absl::Status confine_to_serving();

}  // namespace fermata::engine
