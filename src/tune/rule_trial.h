#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/rules.h"
#include "simulate/scenario.h"

namespace fermata::tune {

// Rules that are the best somewhere, see docs/policies.md.
struct RuleRow {
  std::string_view name;
  policy::Rules rules;
};
const std::vector<RuleRow>& rule_rows();  // the default first
std::optional<size_t> find_rule_row(std::string_view name);

// Of the requests of one service that some worker could have answered in time: how many there were,
// and what was lost of them. One that is late or rejected is lost, of one that is answered less
// accurately than it could be the part that is missing.
struct Loss {
  double requests = 0, lost = 0;

  double share() const { return requests > 0 ? lost / requests : 0; }
};
using Losses = std::map<std::string, Loss>;  // by service

// What would have been lost of the scenario's requests under these rules. Pure; some 10^6 requests
// a second of real time.
absl::StatusOr<Losses> try_rules(simulate::Scenario scenario, const policy::Rules& rules);

}  // namespace fermata::tune
