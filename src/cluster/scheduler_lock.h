#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/threads/periodic.h"

namespace fermata::cluster {

// Which of several schedulers is active: the one that holds the lock of a file that all of them
// see. The kernel gives it up when the holder's process ends. The file has the number of its
// holders, the epoch, so that whoever has had a later one refuses an earlier one.
class SchedulerLock {
 public:
  // `held` is called once, from a thread of its own, when the lock is held. UNAVAILABLE where the
  // file cannot be opened.
  static absl::StatusOr<std::unique_ptr<SchedulerLock>> make(
      const std::string& file, std::function<void(uint64_t epoch)> held);
  ~SchedulerLock();

 private:
  SchedulerLock(std::string file, int descriptor, std::function<void(uint64_t epoch)> held);
  void look();

  const std::string file_;
  const int descriptor_;
  const std::function<void(uint64_t epoch)> held_;
  bool is_held_ = false;
  std::unique_ptr<engine::Periodic> timer_;
};

}  // namespace fermata::cluster
