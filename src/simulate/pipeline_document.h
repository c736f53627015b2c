#pragma once

#include "base/document.h"
#include "simulate/scenario.h"
#include "simulate/services_document.h"

namespace fermata::simulate {

// The "pipelines" of a scenario, of which everything else has been read. Stages that have variants
// of their own become variants services of the scenario that nobody calls directly.
void read_pipelines(Reader value, Scenario& scenario, ServiceNames& named);
// Whether what adapters plan can be planned, once services are known.
void check_adapters(Reader value, const Scenario& scenario);

}  // namespace fermata::simulate
