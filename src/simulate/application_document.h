#pragma once

#include <vector>

#include "base/document.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// The "applications" of a scenario, whose workers and models have been read.
std::vector<SimulatedApplication> read_applications(Reader value, const Scenario& scenario);

}  // namespace fermata::simulate
