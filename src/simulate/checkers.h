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

// Every request that had to end within the run ended once: in a batch, dropped, or
// short-circuited.
Findings check_conservation(const Scenario& scenario, const Trace& trace);

// No worker runs two batches at a time, none starts before it was decided, and
// every batch takes exactly as long as its profile says, with the variant's load time where,
// and only where, the worker's memory does not hold it: least recently used ones go.
Findings check_workers(const Scenario& scenario, const Trace& trace);

// No batch is above its model's limit, or holds the request of another model or of an
// variants service that does not name it.
Findings check_batches(const Scenario& scenario, const Trace& trace);

// No model's request is answered late, no short circuit so late that it costs more than 2 %.
Findings check_deadlines(const Scenario& scenario, const Trace& trace);

// Only variants services that have one are short-circuited, when their evidence can be known.
Findings check_short_circuits(const Scenario& scenario, const Trace& trace);

// A query of an ensemble runs at most once on each of its models and is answered by all that have
// ended by then, by its deadline if several have, and by at least one; one that runs, or of an
// ensemble that serves all, is not dropped.
Findings check_ensembles(const Scenario& scenario, const Trace& trace);

// Nothing is dropped before it arrived, nor (with a delay bound of zero) later
// than the moment at which it alone could still have made it, or have been worth anything,
// be it by its evidence.
Findings check_drops(const Scenario& scenario, const Trace& trace);

// A request that has children is opened and ends once; each child comes to one that is open, and
// when that is closed none of them waits.
Findings check_trees(const Scenario& scenario, const Trace& trace);

// Deferral: each batch starts no earlier than its latest start, dl - ℓ(b+1), for
// its earliest deadline dl, unless it is as large as a batch may be.
Findings check_deferral(const Scenario& scenario, const Trace& trace);

// Work conservation: while a request waits, no worker idles.
Findings check_work_conservation(const Scenario& scenario, const Trace& trace);

// All that holds for every policy that refuses what would be late.
Findings check_always(const Scenario& scenario, const Trace& trace);

}  // namespace fermata::simulate
