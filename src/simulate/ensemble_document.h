#pragma once

#include <vector>

#include "base/document.h"
#include "simulate/scenario.h"
#include "simulate/services_document.h"

namespace fermata::simulate {

// The "ensembles" of a scenario, whose workers, models and applications have been read.
std::vector<SimulatedEnsemble> read_ensembles(Reader value, const Scenario& scenario,
                                              ServiceNames& named);

}  // namespace fermata::simulate
