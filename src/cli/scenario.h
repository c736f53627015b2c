#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulate/scenario_document.h"

namespace fermata::cli {

// Adds --set RULE=VALUE to a command that simulates; the changes come to `changes`.
void add_rules(CLI::App* command, std::vector<std::string>& changes);

// Adds --tune on|off: whether the default chooses its rules while it runs.
void add_tune(CLI::App* command, bool& tune);

// The scenario in a file ("-": standard input) with these changes of its policy's rules, ready to
// run. Otherwise says why, sets `exit_code`, and returns nothing: kBadInput with one line on
// standard error, or kInfeasible with the binding constraint on standard output.
std::optional<simulate::Scenario> load_scenario(
    const std::string& file, const std::vector<std::string>& rules, int& exit_code,
    simulate::Scenario (*from)(Reader) = simulate::read_scenario);

}  // namespace fermata::cli
