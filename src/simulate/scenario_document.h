#pragma once

#include "base/document.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// The contract's document of `fermata simulate` and `fermata goodput`.
Scenario read_scenario(Reader root);

}  // namespace fermata::simulate
