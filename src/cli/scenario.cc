#include "cli/scenario.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"

namespace fermata::cli {
namespace {

absl::StatusOr<simulate::Scenario> read(const std::string& file,
                                        simulate::Scenario (*from)(Reader)) {
  ASSIGN_OR_RETURN(Document document, Document::load(file));
  return document.read(from);
}

}  // namespace

std::optional<simulate::Scenario> load_scenario(const std::string& file, int& exit_code,
                                                simulate::Scenario (*from)(Reader)) {
  auto scenario = read(file, from);
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
