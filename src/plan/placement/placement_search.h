#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "plan/placement/placement.h"

namespace fermata::plan {

// A good assignment within the cost of change, after `steps` evaluated changes:
// simulated annealing on the sum of squared deviations, then descent on the
// objective itself, in rounds. `start` must keep equation 11 and is the first
// best, so the result is never worse; equations 5 and 6 are penalised, so it
// may break them where nothing better was found.
std::vector<uint32_t> search_placement(const PlacementProblem& problem, std::vector<uint32_t> start,
                                       uint64_t steps, Random& random);

// Everybody where they are; who is nowhere goes, the largest first, where the
// load is least.
std::vector<uint32_t> first_placement(const PlacementProblem& problem);

}  // namespace fermata::plan
