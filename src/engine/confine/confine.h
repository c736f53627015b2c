#pragma once

#include <sched.h>

#include <cstdint>

#include "absl/status/status.h"

namespace fermata::engine {

// From now on this process and what it becomes: opens files to read them only and changes none,
// opens no socket, starts no process, signals and watches no other, and keeps no privilege of
// root's but to read files. Threads it may start. UNAVAILABLE where the system denies it that.
// Where the kernel has Landlock it reads no other's memory.
absl::Status confine_to_serving();

// The same for a process of which children of its parent are made (nursery.h), which confine
// themselves to serving then: by the flags of such a copy alone it starts processes. Signals that
// such a process sends to itself it may send to any but its parent, without Landlock of 6.12.
absl::Status confine_to_copying();
inline constexpr uint64_t kCopyFlags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;

}  // namespace fermata::engine
