#include "tune/rule_trial.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "simulate/driver.h"

namespace fermata::tune {
namespace {

std::vector<RuleRow> make_rows() {
  const policy::Rules usual = *policy::policy_rules("fermata");
  std::vector<RuleRow> rows = {{"fermata", usual}};
  for (const std::string_view name : {"fermata-early", "fermata-prefix", "deferred",
                                      "deferred-prefix", "clockwork", "eager", "edf"}) {
    policy::Rules rules = *policy::policy_rules(name);
    // A trial sees neither what has waited for longer than it replays, nor what pipelines plan.
    rules.best_effort = usual.best_effort;
    rules.planned = usual.planned;
    rows.push_back({name, rules});
  }
  return rows;
}

// Accurate answers in time; of a plain model every answer counts as one.
double worth_of(const simulate::ModelResult& model) {
  const auto on_time = static_cast<double>(model.on_time);
  if (model.items == 0 || model.offered == 0) return on_time;
  const double requests_by_item =
      static_cast<double>(model.offered) / static_cast<double>(model.items);
  if (model.variants) return model.variants->utility * requests_by_item;
  if (model.ensemble) return static_cast<double>(model.ensemble->correct) * requests_by_item;
  return on_time;
}

}  // namespace

const std::vector<RuleRow>& rule_rows() {
  static const std::vector<RuleRow> kRows = make_rows();
  return kRows;
}

std::optional<size_t> find_rule_row(std::string_view name) {
  const auto& rows = rule_rows();
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.name == name; });
  if (at == rows.end()) return std::nullopt;
  return static_cast<size_t>(at - rows.begin());
}

absl::StatusOr<Losses> try_rules(simulate::Scenario scenario, const policy::Rules& rules) {
  scenario.scheduler = rule_rows().front().name;
  scenario.groups.rules = rules;
  ASSIGN_OR_RETURN(const simulate::Result result, simulate::run(scenario));
  Losses losses;
  for (const simulate::ModelResult& model : result.models) {
    const auto requests = static_cast<double>(model.offered - model.infeasible);
    losses[model.name] = {requests, std::max(0.0, requests - worth_of(model))};
  }
  return losses;
}

}  // namespace fermata::tune
