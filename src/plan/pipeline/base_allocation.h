#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "model/latency.h"

namespace fermata::plan {

// What one replica of a variant takes on each number of cores that was profiled.
using LatencyByCores = std::map<uint32_t, LatencyModel>;

struct BaseAllocation {
  std::vector<std::optional<uint32_t>> cores;  // by variant; none: too slow on any number
  // Of the stage: 5 times the mean latency of a batch of one on these cores; 0: of none.
  double sla_ms = 0;
};

// The fewest cores on which a replica of each variant of a stage serves at least `threshold_rps` in
// its best batches and its largest batch keeps the stage's SLA (IPA, equation 1). That SLA depends
// on the allocation; this starts from the fewest cores and adds some wherever a bound is broken,
// until none is: O(cores * variants) rounds. Variants that fail on all their cores do not count for
// the SLA. Batch sizes are not empty.
BaseAllocation base_allocation(const std::vector<LatencyByCores>& variants,
                               const std::vector<uint32_t>& batch_sizes, double threshold_rps);

}  // namespace fermata::plan
