#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "policy/pool/pool_ranker.h"
#include "policy/rules.h"

namespace fermata::policy {

// A policy in its two parts, for a driver that carries offers, grants and
// answers between them itself, from thread to thread: batchers are RuleBatchers.
struct Parts {
  Rules rules;
  std::unique_ptr<PoolRanker> ranker;
};

// By the names of policy_rows(), with its rules or with these instead; unknown: INVALID_ARGUMENT
// with the list.
absl::StatusOr<Parts> make_parts(std::string_view policy,
                                 const std::optional<Rules>& rules = std::nullopt);

}  // namespace fermata::policy
