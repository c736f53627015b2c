#pragma once

#include <cstdint>
#include <vector>

#include "base/document.h"
#include "base/time.h"
#include "policy/scheduler.h"
#include "simulate/scenario.h"

namespace fermata::tune {

// How a run's rules were chosen while it went on.
struct TuningLog {
  struct Move {
    Time at;
    size_t row = 0;  // of rule_rows()
  };
  std::vector<Move> moves;
  uint64_t trials = 0, replayed = 0;  // the latter: requests, under each row
};

// For a run in virtual time (RunOptions::listener): stands before the default's scheduler, records
// what it is told, tries the rows on that in runs of their own, which do not tune again, and moves
// the scheduler to the best. A request of a pipeline's stage counts as one of its model. Where
// services of variants or ensembles are, nothing is tried. `log`, which may be null, is that of the
// last run and outlives it.
policy::Listener tuning(TuningLog* log = nullptr);
// The same where the scenario leaves the rules to the server: the default without rules of its own.
// Else none.
policy::Listener tuning_for(const simulate::Scenario& scenario, TuningLog* log = nullptr);
Json write_tuning(const TuningLog& log);

}  // namespace fermata::tune
