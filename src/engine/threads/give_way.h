#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace fermata::engine {

// Lowers the priority of the calling thread beside the process's others, on Linux, and of those
// that it starts. Not to all there is, since others wait where it is kept from ending what it has
// begun, such as taking memory.
inline void give_way() {
  constexpr int kLess = 10, kLowest = 19;
  setpriority(PRIO_PROCESS, 0, std::min(getpriority(PRIO_PROCESS, getpid()) + kLess, kLowest));
}

}  // namespace fermata::engine
