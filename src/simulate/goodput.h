#pragma once

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
// of each step. INVALID_ARGUMENT where nobody has a deadline, or a run would have over 1e9 requests.
absl::StatusOr<Goodput> find_goodput(Scenario scenario,
                                     const std::function<void(const GoodputStep&)>& progress = {});

// Requests a second if every worker ran the largest batch that one request's SLO
// allows, back to back; 0 where some model cannot run even one item in time. What is made of
// several takes its cheapest variant, whatever its SLO.
double rate_bound(const Scenario& scenario);

Json write_goodput(const Goodput& goodput);

}  // namespace fermata::simulate
