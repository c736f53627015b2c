#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace fermata::engine {

// One thread sleeps in it, any thread wakes it; a wake before the sleep is not
// lost. Costs a system call only when somebody really sleeps. The sleeper must
// look for work between two sleeps; wakes without work happen.
class Parker {
 public:
  void unpark();
  // Until `when` on the monotonic clock; infinite: until woken.
  void park_until(Time when);

 private:
  static constexpr uint32_t kAwake = 0, kAsleep = 1, kNotified = 2;
  std::atomic<uint32_t> state_{kAwake};
};

}  // namespace fermata::engine
