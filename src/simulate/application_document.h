#pragma once

#include <vector>

#include "base/document.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// The "applications" of a scenario, whose workers and models have been read.
std::vector<SimulatedApplication> read_applications(Reader value, const Scenario& scenario);

// What runs and how long, without how often it is right: the name of one of the scenario's models,
// or a model of its own.
SimulatedVariant read_runnable(Reader value, ObjectReader& fields, const Scenario& scenario);

}  // namespace fermata::simulate
