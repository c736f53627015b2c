#pragma once

#include <variant>

#include "base/document.h"
#include "plan/ensemble/ensemble_problem.h"
#include "plan/ensemble/pool_problem.h"

namespace fermata::plan {

// `fermata plan ensemble`: docs/schemas/ensemble.schema.json.
EnsembleTask read_ensemble_task(Reader root);
// The same, or the default's own decision, as its `policy` says.
std::variant<EnsembleTask, PoolProblem> read_any_ensemble_task(Reader root);

// The document of a task. What is read from it is planned as the task is, to the
// nanosecond and to the last bit of every utility. Deadlines that have passed are written as 0:
// neither can be kept, unless a model takes no time.
Json to_document(const EnsembleTask& task);

Json write_ensemble_plan(const EnsembleTask& task, const EnsemblePlan& plan);

}  // namespace fermata::plan
