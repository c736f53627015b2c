#include "simulate/scenario.h"

#include <fmt/format.h>

#include <algorithm>

namespace fermata::simulate {

uint32_t Scenario::worker_count() const {
  uint32_t n = 0;
  for (const WorkerGroup& group : workers) n += group.count;
  return n;
}

double Scenario::rate_of(double share) const {
  double shares = 0;
  for (const SimulatedModel& m : models) shares += m.share;
  for (const SimulatedApplication& a : applications) shares += a.share;
  return rate_rps * share / shares;
}

std::string Scenario::memory_violation() const {
  // Weights of all models stay; what a run needs besides is there once, for the
  // one batch that a worker runs (Symphony eq. 6).
  double weights = 0, largest_run = 0;
  for (const SimulatedModel& m : models) {
    weights += m.static_mb;
    largest_run = std::max(largest_run, m.dynamic_mb);
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].memory_mb > 0 && weights + largest_run > workers[i].memory_mb) {
      return fmt::format("memory_mb of workers {} is {}, its models need {}", i,
                         workers[i].memory_mb, weights + largest_run);
    }
  }
  return {};
}

}  // namespace fermata::simulate
