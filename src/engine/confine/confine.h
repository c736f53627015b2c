#pragma once

#include <sched.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace fermata::engine {

// From now on, for the thread that calls and those that it starts; for what the code of a model
// could open by itself, not a sandbox for machine code: sockets within this machine only.
// UNAVAILABLE where the system denies a filter of calls, here and below.
absl::Status deny_internet();

// From now on this process and what it becomes: opens files to read them only and changes none,
// opens no socket, starts no process, signals and watches no other, and keeps no privilege of
// root's but to read files. Threads it may start. Where the kernel has Landlock it reads no other's
// memory.
absl::Status confine_to_serving();

// The same for a process of which children of its parent are made (nursery.h), which confine
// themselves to serving then: by the flags of such a copy alone it starts processes, and each of
// these waits until a CopyGate (copy_gate.h) with this descriptor lets it. Signals that such a
// process sends to itself it may send to any but its parent, without Landlock of 6.12.
absl::StatusOr<int> confine_to_copying();
inline constexpr uint64_t kCopyFlags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;

}  // namespace fermata::engine
