#pragma once

#include <optional>
#include <string>

#include "simulate/scenario_document.h"

namespace fermata::cli {

// The scenario in a file ("-": standard input), ready to run. Otherwise says
// why, sets `exit_code`, and returns nothing: kBadInput with one line on
// standard error, or kInfeasible with the binding constraint on standard output.
std::optional<simulate::Scenario> load_scenario(
    const std::string& file, int& exit_code,
    simulate::Scenario (*from)(Reader) = simulate::read_scenario);

}  // namespace fermata::cli
