#include "policy/rules_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/status.h"

namespace fermata::policy {

std::optional<Rules> read_rules(Reader value, std::string_view policy) {
  if (!value.present()) return std::nullopt;
  const Rules* row = policy_rules(policy);
  if (row == nullptr) {
    value.fail(fmt::format("no rules: the policy '{}' has none", policy));
    return std::nullopt;
  }
  Rules rules = *row;
  for (const auto& [name, field] : value.map()) {
    const std::string setting = field.is_number() ? fmt::format("{}", field.number())
                                : field.boolean() ? "on"
                                                  : "off";
    const absl::Status set = set_rule(rules, fmt::format("{}={}", name, setting));
    if (!set.ok() && !value.failed()) {
      field.fail(fmt::format("a rule and a value that it takes ({})", message(set)));
    }
  }
  return rules;
}

Json write_rules(const Rules& rules, std::string_view policy) {
  const Rules* row = policy_rules(policy);
  FERMATA_CHECK(row != nullptr);
  Json map = Json::object();
  for (const std::string& change : rule_changes(*row, rules)) {
    const size_t equals = change.find('=');
    const std::string value = change.substr(equals + 1);
    double number = 0;
    Json& field = map[change.substr(0, equals)];
    if (absl::SimpleAtod(value, &number)) {
      field = number;
    } else {
      field = value == "on";
    }
  }
  return map;
}

}  // namespace fermata::policy
