#pragma once

#include "base/random.h"
#include "policy/rules.h"

namespace fermata::policy {

// A row of the table, in three of four with one rule after another switched off, or on from the
// default's.
inline Rules any_rules(Random& random) {
  const auto rows = policy_rows();
  Rules rules = rows[random.below(rows.size())].rules;
  if (random.below(4) == 0) return rules;
  for (const Rule& rule : all_rules()) {
    if (random.below(3) != 0) continue;
    const Rules from = random.below(2) == 0 ? Rules() : rows[0].rules;
    std::visit([&](auto field) { rules.*field = from.*field; }, rule.field);
  }
  return rules;
}

}  // namespace fermata::policy
