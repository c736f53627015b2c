#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "plan/streams/stream_problem.h"

namespace fermata::policy {

// Plans all stream services of one pool as one problem, so that no worker is promised twice: each
// worker runs one DNN of one service. Clients count alike, whichever service is theirs: as many as
// possible are served, then accuracy counts. Where there are more services than workers, or one
// would get none and more clients are served so, workers are planned in equal parts: each carries
// its part of the frames, which may have to wait for a batch of another service. Pure.
class StreamPool {
 public:
  explicit StreamPool(uint32_t workers) : workers_(workers), owners_(workers) {}  // at most

  // Names are those of the services' own, and stay; each problem has as many workers, those of the
  // pool that are there.
  struct Service {
    std::string name;
    plan::StreamProblem problem;
  };
  struct Planned {
    plan::StreamProblem problem;          // as it was solved
    std::vector<plan::StreamPlan> plans;  // by service, each of its own problem
  };
  Planned plan(const std::vector<Service>& services);

 private:
  using Services = std::vector<const Service*>;

  plan::StreamProblem join(const Services& services, uint32_t parts) const;
  // A batch of each of so many other services, those with the longest, as they were planned last.
  Duration longest_beside(const Services& services, const Service& own, uint32_t others) const;
  Planned plan_together(const Services& services) const;
  std::vector<plan::StreamPlan> divide(const Services& services,
                                       const plan::StreamPlan& plan) const;
  void remember(const Services& services, const std::vector<plan::StreamPlan>& plans);

  uint32_t workers_;                         // of the last problems
  std::vector<std::string> owners_;          // by worker: the service that had it last
  std::map<std::string, Duration> longest_;  // by service: of its batches
};

}  // namespace fermata::policy
