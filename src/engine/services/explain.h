#pragma once

#include "engine/schedule/job.h"
#include "engine/services/application.h"
#include "engine/services/ensemble.h"

namespace fermata::engine {

// Adds to the explanation of an answer what each variant could have done and why this one
// was chosen (SneakPeek, equations 9 to 11).
void explain_choice(const Application& application, const policy::Evidence& evidence,
                    const PartRun& run, Time deadline, Explanation& why);

// The same of an ensemble: which base models answered, whether more were to, what each subset
// is worth for a query so difficult.
void explain_subset(const Ensemble& ensemble, const EnsembleRun& run, Explanation& why);

}  // namespace fermata::engine
