#pragma once

#include "plan/streams/stream_problem.h"

namespace fermata::plan {

// Solves by problem.solver. Pure and deterministic from problem.seed. Serving more clients
// comes first, then the objective. Without clients the plan is empty, at once.
//   best       exact where that is quick (up to some 14 clients), else a search, from the published
//              annealing on; at most some twenty milliseconds whatever the problem.
//   exact      the optimum, about a second for 18 clients; where that needs more than
//              max_steps, what `best` finds, with `exact` false.
//   annealing  as published.
StreamPlan plan_streams(const StreamProblem& problem);

}  // namespace fermata::plan
