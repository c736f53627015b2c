#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace fermata::serve {

// Which jobs belong to each open connection, so that they can be cancelled when
// it closes. A connection has at most two requests under way, so its last two
// jobs are enough to know; cancelling one that has ended does nothing.
// Thread-safe; each call takes one lock for a moment.
class RunningJobs {
 public:
  void open(uint64_t connection);
  // False: the connection is closed already, nobody else will cancel the job.
  bool add(uint64_t connection, JobId job);
  std::vector<JobId> close(uint64_t connection);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::array<JobId, 2>> last_;
};

}  // namespace fermata::serve
