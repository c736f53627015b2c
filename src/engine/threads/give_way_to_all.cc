#include "engine/threads/give_way_to_all.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace fermata::engine {
namespace {

// As sched_setattr(2) has it, for which not every C library has a function.
struct Attributes {
  uint32_t size = sizeof(Attributes), policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(Attributes) == 48);

}  // namespace

// Whoever has a shorter slice need not wait for the end of this one: the longest that there is.
void give_way_to_all(pid_t thread) {
  constexpr int kLess = 10, kLowest = 19;
  constexpr uint64_t kSliceNanos = 100'000'000;
  const int own = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  Attributes attributes;
  attributes.nice = std::min(own + kLess, kLowest);
  attributes.runtime = kSliceNanos;
  if (syscall(SYS_sched_setattr, thread, &attributes, 0) == 0) return;
  setpriority(PRIO_PROCESS, static_cast<id_t>(thread), attributes.nice);
}

}  // namespace fermata::engine
