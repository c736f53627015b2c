#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulate/result.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

inline constexpr double kAllowedBadRate = 0.01;  // of every model
inline constexpr double kRatePrecision = 1.005;  // hi / lo at the end of the search

struct GoodputStep {
  double rate_rps = 0, worst_bad_rate = 0;
};

struct Goodput {
  double rate_rps = 0;  // 0: not even the lowest rate tried is good
  std::string binding;  // then what keeps it from being so
  Result result;        // of a run at that rate, or of the lowest one tried
  std::vector<GoodputStep> steps;
};

// The highest rate at which every model has bad_rate <= 1 %, by bisection from a
// bound that no schedule exceeds, up to the highest rate that a document may have. `progress` hears
// of each step. INVALID_ARGUMENT where nobody has a deadline, or a run would have over 1e9
// requests. `listener` as in RunOptions, of every run.
absl::StatusOr<Goodput> find_goodput(Scenario scenario,
                                     const std::function<void(const GoodputStep&)>& progress = {},
                                     const policy::Listener& listener = {});

struct NeededStep {
  uint32_t workers = 0;
  double worst_bad_rate = 0;
};

struct NeededWorkers {
  uint32_t workers = 0;  // 0: not even the most that were tried are enough
  std::string binding;   // then what keeps them from it
  Result result;         // of a run with so many, or with the most tried
  std::vector<NeededStep> steps;
};

// The least number of workers with which every model has bad_rate <= 1 % at the scenario's rate,
// by doubling and halving; `progress` hears of each step. INVALID_ARGUMENT where nobody has a
// deadline, and where workers are of several types or come and go.
absl::StatusOr<NeededWorkers> find_workers(
    Scenario scenario, const std::function<void(const NeededStep&)>& progress = {},
    const policy::Listener& listener = {});

// Requests a second if every worker ran the largest batch that one request's SLO
// allows, back to back; 0 where some model cannot run even one item in time. What is made of
// several takes its cheapest variant, whatever its SLO.
double rate_bound(const Scenario& scenario);

Json write_goodput(const Goodput& goodput);
Json write_needed_workers(const NeededWorkers& needed);

}  // namespace fermata::simulate
