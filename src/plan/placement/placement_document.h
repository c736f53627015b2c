#pragma once

#include "base/document.h"
#include "plan/placement/placement.h"

namespace fermata::plan {

// `fermata plan placement`: docs/schemas/placement.schema.json.
PlacementProblem read_placement(Reader root);
// The document that reads as `problem`, to the bit.
Json write_placement_problem(const PlacementProblem& problem);
Json write_placement(const PlacementProblem& problem, const Placement& placement);

}  // namespace fermata::plan
