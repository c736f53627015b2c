#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/time.h"
#include "tune/recording.h"

namespace fermata::tune {

// What the server itself takes: from a decision until its batch starts on an idle worker, and from
// the end of a batch to the reply. Means.
struct MeasuredDelays {
  Duration start, reply;
};
MeasuredDelays measured_delays(const Recording& recording);

// A batch as its worker was kept by it.
struct MeasuredRun {
  Time at;
  uint32_t worker = 0, items = 0;
  Duration took;
};
// By model, in the order in which they were bound. A run begins `start` after its decision, or when
// the batch before it ended, and ends when it did: what it waited longer for its thread is in it.
using MeasuredRuns = std::map<VariantId, std::vector<MeasuredRun>>;
MeasuredRuns measured_runs(const Recording& recording, Duration start);

}  // namespace fermata::tune
