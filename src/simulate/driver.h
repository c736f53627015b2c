#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "policy/scheduler.h"
#include "simulate/result.h"
#include "simulate/scenario.h"
#include "simulate/trace.h"

namespace fermata::simulate {

struct RunOptions {
  Trace* trace = nullptr;                // appended to where not null
  policy::Listener listener;             // none where empty
  std::function<void(double)> progress;  // now and then, with the share that is done
};

// Runs the scenario in virtual time: workers take exactly as long as their
// profile says. Events are in a total order of time, then ends of batches by
// worker, arrivals by model, the scheduler's own wake-up; so a scenario always
// gives the same result. Some 10^6 requests a second of real time.
// INVALID_ARGUMENT where the scenario names no known scheduler.
absl::StatusOr<Result> run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace fermata::simulate
