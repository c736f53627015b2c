#pragma once

#include "engine/application.h"
#include "engine/job.h"

namespace fermata::engine {

// Adds to the explanation of an answer what each variant could have done and why this one
// was chosen (SneakPeek, equations 9 to 11).
void explain_choice(const Application& application, const policy::Evidence& evidence,
                    const PartRun& run, Time deadline, Explanation& why);

}  // namespace fermata::engine
