#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "simulate/recorded_times.h"
#include "tune/recording.h"

namespace fermata::tune {

// What the server itself took, from the beginning of the recording; empty where nothing tells.
struct MeasuredDelays {
  // Of each batch: from its decision, or the end of the one before it on its worker, to its start.
  simulate::MeasuredDelay start;
  // From a batch's end to the next decision about its worker, where requests waited for it.
  simulate::MeasuredDelay decision;
  simulate::MeasuredDelay reply;  // of each batch: from its end to its replies, on average
};
MeasuredDelays measured_delays(const Recording& recording);

struct MeasuredRun {
  Time at;
  uint32_t worker = 0, items = 0;
  Duration took;
};
// By model, in the order in which they were bound.
using MeasuredRuns = std::map<VariantId, std::vector<MeasuredRun>>;
MeasuredRuns measured_runs(const Recording& recording);

// Runs of one model took `ratio` times what was believed of them. What most of those about a run
// took of that is slowness of the machine, in proportion to its size; the rest was a stall, and
// would have kept any other batch as long. `believed`: of each run.
simulate::MeasuredDrift measured_drift(const std::vector<MeasuredRun>& runs,
                                       const std::vector<Duration>& believed, Time from);

}  // namespace fermata::tune
