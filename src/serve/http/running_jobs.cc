#include "serve/http/running_jobs.h"

namespace fermata::serve {

void RunningJobs::open(uint64_t connection) {
  const std::scoped_lock lock(mutex_);
  last_.try_emplace(connection);
}

bool RunningJobs::add(uint64_t connection, JobId job) {
  const std::scoped_lock lock(mutex_);
  const auto found = last_.find(connection);
  if (found == last_.end()) return false;
  found->second = {found->second[1], job};
  return true;
}

std::vector<JobId> RunningJobs::close(uint64_t connection) {
  const std::scoped_lock lock(mutex_);
  std::vector<JobId> result;
  if (const auto found = last_.find(connection); found != last_.end()) {
    for (const JobId job : found->second) {
      if (!job.is_none()) result.push_back(job);
    }
    last_.erase(found);
  }
  return result;
}

}  // namespace fermata::serve
