#pragma once

#include <optional>
#include <string_view>

#include "base/document.h"
#include "policy/rules.h"

namespace fermata::policy {

// The policy's rules with changes from a map such as {hold: false, margin: 0.2}; none where it is
// missing. An error names the rules and values there are.
std::optional<Rules> read_rules(Reader value, std::string_view policy);

// The same back: what differs from the policy's row.
Json write_rules(const Rules& rules, std::string_view policy);

}  // namespace fermata::policy
