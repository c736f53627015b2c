#pragma once

#include "base/document.h"
#include "plan/placement.h"

namespace fermata::plan {

// `fermata plan placement`: docs/schemas/placement.schema.json.
PlacementProblem read_placement(Reader root);
Json write_placement(const PlacementProblem& problem, const Placement& placement);

}  // namespace fermata::plan
