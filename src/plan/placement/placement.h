#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace fermata::plan {

// By how much sums of rates and of memory may differ, relative.
constexpr double kRounding = 1e-9;

// Models to sub-clusters, once an epoch (Symphony, section 4.7 and appendix A):
// minimise the spread of rate and static memory, equations 4, 7 and 8 in the
// contract's units, under equations 5, 6, 9 and 11.

struct PlacementModel {
  std::string name;
  double rate_rps = 0;
  double static_mb = 0;   // resident wherever the model is placed
  double dynamic_mb = 0;  // on top of it while the model runs; one runs at a time
  double change_cost = 1;
  std::optional<uint32_t> current;  // sub-cluster; none: not loaded yet
};

struct PlacementProblem {
  static constexpr uint64_t kDefaultSteps = 18'000'000;  // about a second

  uint32_t subclusters = 1;
  double max_rate_rps = 0;  // of one sub-cluster, equation 5
  double memory_mb = 0;     // of one worker, equation 6
  double weight = 1;        // of memory against rate
  double max_change_cost = std::numeric_limits<double>::infinity();  // equation 11
  // One level up: schedulers of an equal, contiguous share of the sub-clusters
  // each (a divisor of subclusters), with a bound on the rate of one.
  uint32_t schedulers = 1;
  double max_scheduler_rate_rps = std::numeric_limits<double>::infinity();
  uint64_t seed = 1;
  uint64_t max_steps = kDefaultSteps;
  std::vector<PlacementModel> models;
};

enum class PlacementLimit : uint8_t { kNone, kRate, kMemory, kChangeCost, kSchedulerRate };

struct Placement {
  bool feasible = false;
  bool exact = false;                              // the optimum, or infeasibility, is proven
  PlacementLimit binding = PlacementLimit::kNone;  // where it is not feasible
  std::string reason;                              // and one sentence why
  double objective = 0;      // rate_spread / mean rate + weight * memory_spread / mean memory
  double rate_spread = 0;    // the largest distance to the mean, equation 7
  double memory_spread = 0;  // equation 8
  double rate_imbalance = 0, memory_imbalance = 0;  // (max - min) / mean; 0 where the mean is 0
  double change_cost = 0;                           // 2 * change_cost a move, once a first load
  std::vector<uint32_t> assignment;                 // by model, in the problem's order
};

// Pure and deterministic from problem.seed; ends after about max_steps
// evaluated changes. Small problems are solved to the optimum where the steps
// suffice. With schedulers > 1 models go to schedulers first, then within each, by
// the same search. Needs subclusters >= 1, finite non-negative amounts and every
// `current` below subclusters (the document reader sees to it).
Placement place(const PlacementProblem& problem);

// The figures of a given assignment; `feasible` says whether it keeps every
// limit (sums may exceed one by a relative 1e-9, for rounding). O(models).
Placement evaluate(const PlacementProblem& problem, std::vector<uint32_t> assignment);

}  // namespace fermata::plan
