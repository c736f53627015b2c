#pragma once

#include <sys/types.h>

namespace fermata::engine {

// As give_way(), but beside all other processes, of a thread (0: the calling one) that keeps none
// of its own process waiting. What wakes where it runs takes its place at once, and does not wait
// for the end of its slice (Linux 6.12 and later; before, sooner or later). It is no real-time
// thread any more, if it was one.
void give_way_to_all(pid_t thread = 0);

}  // namespace fermata::engine
