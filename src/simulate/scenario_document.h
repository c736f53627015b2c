#pragma once

#include "base/document.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// The contract's document of `fermata simulate`, and that of `fermata goodput`, which may leave
// rate_rps out.
Scenario read_scenario(Reader root);
Scenario read_goodput_scenario(Reader root);

}  // namespace fermata::simulate
