#include "cli/scenario.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "simulate/scenario_document.h"

namespace fermata::cli {
namespace {

absl::StatusOr<simulate::Scenario> read(const std::string& file) {
  ASSIGN_OR_RETURN(Document document, Document::load(file));
  return document.read(simulate::read_scenario);
}

}  // namespace

std::optional<simulate::Scenario> load_scenario(const std::string& file, int& exit_code) {
  auto scenario = read(file);
  if (!scenario.ok()) {
    std::cerr << message(scenario.status()) << "\n";
    exit_code = kBadInput;
    return std::nullopt;
  }
  if (const std::string violation = scenario->memory_violation(); !violation.empty()) {
    std::cout << write_json({{"feasible", false}, {"binding", violation}});
    exit_code = kInfeasible;
    return std::nullopt;
  }
  return *std::move(scenario);
}

}  // namespace fermata::cli
