#pragma once

#include <atomic>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "base/time.h"
#include "engine/threads/parker.h"

namespace fermata::engine {

// Calls `work` on a thread of its own, first after one period, then one period after the
// last call ended.
class Periodic {
 public:
  Periodic(Duration period, absl::AnyInvocable<void()> work);
  // Waits for a call under way.
  ~Periodic();
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  void run(Duration period);

  absl::AnyInvocable<void()> work_;
  Parker parker_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace fermata::engine
