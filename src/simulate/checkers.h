#pragma once

#include <string>
#include <vector>

#include "simulate/scenario.h"
#include "simulate/trace.h"

namespace fermata::simulate {

// Independent judges of a run: they know the scenario and what happened, and no
// policy. Each returns what it found wrong, a line each; nothing: all is well.
// The trace must be of a whole run with one worker type.
using Findings = std::vector<std::string>;

// Every request that had to end within the run ended once: in a batch or dropped.
Findings check_conservation(const Scenario& scenario, const Trace& trace);

// No worker runs two batches at a time, none starts before it was decided, and
// every batch takes exactly as long as its profile says.
Findings check_workers(const Scenario& scenario, const Trace& trace);

// No batch is above its model's limit, holds another model's request, or ends
// after the deadline of one of its own.
Findings check_batches(const Scenario& scenario, const Trace& trace);

// Nothing is dropped before it arrived, nor (with a delay bound of zero) later
// than the moment at which it alone could still have made it.
Findings check_drops(const Scenario& scenario, const Trace& trace);

// Deferral: each batch starts no earlier than its latest start, dl - ℓ(b+1), for
// its earliest deadline dl, unless it is as large as a batch may be.
Findings check_deferral(const Scenario& scenario, const Trace& trace);

// Work conservation: while a request waits, no worker idles.
Findings check_work_conservation(const Scenario& scenario, const Trace& trace);

// All that holds for every policy.
Findings check_always(const Scenario& scenario, const Trace& trace);

}  // namespace fermata::simulate
