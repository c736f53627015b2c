#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/placement/placement.h"

namespace fermata::plan {

// Branch and bound over every assignment, the largest models first, empty
// sub-clusters taken for equal where no model lives in them.
struct ExactPlacement {
  bool finished = false;  // within `steps`: then `best` is the optimum, or none exists
  std::optional<std::vector<uint32_t>> best;  // better than the bound, feasible
};

// `bound`: only an objective below it interests. Steps are visited nodes.
ExactPlacement exact_placement(const PlacementProblem& problem, double bound, uint64_t steps);

}  // namespace fermata::plan
