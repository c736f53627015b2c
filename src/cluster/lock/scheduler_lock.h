#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cluster/options.h"

namespace fermata::cluster {

// Which of several schedulers is active: the one that holds this. Destroying it gives it up, so
// that another may begin.
class SchedulerLock {
 public:
  struct Events {
    // From a thread of its own, and again with each later epoch. Each holder's epoch is later than
    // those before, so that whoever has had a later one refuses an earlier one.
    std::function<void(uint64_t epoch)> held;
    // At most once, after that and from a thread of its own: another may hold it soon, and does
    // not before this has had the time to stop what decides.
    std::function<void()> lost;
    // The latest epoch that parts say they have had. The holder's becomes later than that: where
    // epochs were written has been deleted. None: 0.
    std::function<uint64_t()> heard;
  };
  virtual ~SchedulerLock() = default;

  // The epoch that was written last into a file that all of them see, by whoever writes on into it.
  // Another follows once its process has ended, which the kernel tells by a lock of the file, or
  // once it has written nothing for a lease: it hangs. When it wakes it finds a later epoch there:
  // lost. A file that is deleted is written again. `lease`: longer than parts stay with a scheduler
  // that is silent. UNAVAILABLE where the file cannot be opened or locked.
  static absl::StatusOr<std::unique_ptr<SchedulerLock>> of_file(const std::string& file,
                                                                Duration lease, Events events);
  // A Lease, which is lost when it cannot be renewed in time. `name` says in it who holds it.
  static absl::StatusOr<std::unique_ptr<SchedulerLock>> of_lease(const LeaseOptions& options,
                                                                 const std::string& name,
                                                                 Events events);
};

}  // namespace fermata::cluster
