#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/options.h"

namespace fermata::cluster {

// Which of several schedulers is active: the one that holds this. Destroying it gives it up, so
// that another may begin.
class SchedulerLock {
 public:
  struct Events {
    // Once, from a thread of its own. Each holder's epoch is later than those before, so that
    // whoever has had a later one refuses an earlier one.
    std::function<void(uint64_t epoch)> held;
    // At most once, after that and from a thread of its own: another may hold it soon, and does
    // not before this has had the time to stop what decides.
    std::function<void()> lost;
  };
  virtual ~SchedulerLock() = default;

  // The lock of a file that all of them see. The kernel gives it up when the holder's process ends,
  // so it is never lost. The file has the number of its holders, the epoch. UNAVAILABLE where the
  // file cannot be opened.
  static absl::StatusOr<std::unique_ptr<SchedulerLock>> of_file(const std::string& file,
                                                                Events events);
  // A Lease, which is lost when it cannot be renewed in time. `name` says in it who holds it.
  static absl::StatusOr<std::unique_ptr<SchedulerLock>> of_lease(const LeaseOptions& options,
                                                                 const std::string& name,
                                                                 Events events);
};

}  // namespace fermata::cluster
