#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "plan/placement/placement.h"

namespace fermata::plan {

// What it costs to load those that are placed nowhere yet.
double first_loads(const PlacementProblem& problem);

// Models to schedulers, then within each to its sub-clusters (section 4.7: the
// two partitions "are similar and are performed in a hierarchical manner").
// `solve` places one level by its max_steps. The cost of change is shared: the
// upper level may spend half of what the first loads leave, each scheduler its
// part of the rest.
std::vector<uint32_t> search_two_levels(
    const PlacementProblem& problem, uint64_t steps,
    absl::FunctionRef<Placement(const PlacementProblem&)> solve);

}  // namespace fermata::plan
