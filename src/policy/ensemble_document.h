#pragma once

#include "base/document.h"
#include "policy/ensemble_problem.h"

namespace fermata::policy {

// What a document asks for.
struct EnsembleTask {
  EnsembleProblem problem;
  EnsemblePolicy policy = EnsemblePolicy::kDp;
};

// `fermata plan ensemble`: docs/schemas/ensemble.schema.json.
EnsembleTask read_ensemble_task(Reader root);

// The document of a problem. What is read from it is planned as the problem is, to the
// nanosecond and to the last bit of every utility. Deadlines that have passed are written as 0:
// neither can be kept, unless a model takes no time.
Json to_document(const EnsembleProblem& problem, EnsemblePolicy policy);

Json write_ensemble_plan(const EnsembleProblem& problem, const EnsemblePlan& plan);

}  // namespace fermata::policy
