#include "cli/scenario.h"

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/status.h"
#include "cli/cli.h"
#include "policy/rules.h"

namespace fermata::cli {
namespace {

absl::Status change_rules(simulate::Scenario& scenario, const std::vector<std::string>& changes) {
  if (changes.empty()) return absl::OkStatus();
  const policy::Rules* row = policy::policy_rules(scenario.scheduler);
  if (row == nullptr) return invalid("--set: the policy '{}' has no rules", scenario.scheduler);
  std::optional<policy::Rules>& rules = scenario.groups.rules;
  if (!rules) rules = *row;
  for (const std::string& change : changes) RETURN_IF_ERROR(policy::set_rule(*rules, change));
  return absl::OkStatus();
}

absl::StatusOr<simulate::Scenario> read(const std::string& file,
                                        const std::vector<std::string>& rules,
                                        simulate::Scenario (*from)(Reader)) {
  ASSIGN_OR_RETURN(Document document, Document::load(file));
  ASSIGN_OR_RETURN(simulate::Scenario scenario, document.read(from));
  RETURN_IF_ERROR(change_rules(scenario, rules));
  return scenario;
}

}  // namespace

void add_rules(CLI::App* command, std::vector<std::string>& changes) {
  command
      ->add_option("--set", changes,
                   "Change a rule of the policy: hold=off, margin=0.2; repeatable")
      ->type_name("RULE=VALUE");
}

void add_tune(CLI::App* command, bool& tune) {
  static const std::map<std::string, bool> kChoices = {{"on", true}, {"off", false}};
  command
      ->add_option(
          "--tune", tune,
          "on: the default tries other rules while it runs, and moves to the best; off: it "
          "keeps its own")
      ->transform(CLI::CheckedTransformer(kChoices).description(""))
      ->type_name("on|off")
      ->default_str("on");
}

std::optional<simulate::Scenario> load_scenario(const std::string& file,
                                                const std::vector<std::string>& rules,
                                                int& exit_code,
                                                simulate::Scenario (*from)(Reader)) {
  auto scenario = read(file, rules, from);
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
