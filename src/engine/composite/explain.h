#pragma once

#include "engine/composite/ensemble_service.h"
#include "engine/composite/part_run.h"
#include "engine/composite/variants_service.h"
#include "engine/request.h"

namespace fermata::engine {

// Adds to the explanation of an answer what each variant could have done and why this one
// was chosen (SneakPeek, equations 9 to 11).
void explain_choice(const VariantsService& service, const policy::Evidence& evidence,
                    const PartRun& run, Time deadline, Explanation& why);

// The same of an ensemble: which base models answered, whether more were to, what each subset
// is worth for a query so difficult.
void explain_subset(const EnsembleService& ensemble, const EnsembleRun& run, Explanation& why);

}  // namespace fermata::engine
