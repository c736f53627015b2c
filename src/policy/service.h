#pragma once

#include <cstdint>
#include <variant>

#include "plan/ensemble/ensemble_problem.h"
#include "plan/ensemble/pool_problem.h"
#include "policy/ensemble/ensemble.h"
#include "policy/variants/variants.h"

namespace fermata::policy {

// The kinds of services whose requests several keys may answer. What there is of each kind has one
// alternative for each, in this order.
enum class Kind : uint8_t { kVariants, kEnsemble };
inline constexpr size_t kKinds = 2;

using ServiceInfo = std::variant<VariantsInfo, EnsembleInfo>;
// Of an ensemble's query: a base model that was BatchEnd::away for it may run for it again.
struct Again {
  KeyId model;
};
// What is found out about a request from its data, or about its keys, while it waits.
using Estimate = std::variant<Evidence, Difficulty, Again>;
// What a decision was made from, as `fermata plan` reads it: for variants, and for ensembles by a
// published policy or by the default.
using Problem = std::variant<plan::GroupProblem, plan::EnsembleTask, plan::PoolProblem>;

// A request that ends without one batch that answers it alone: with what has been found by now. Of
// a service with evidence that is the evidence model's own answer; of an ensemble the base models'.
struct Concluded {
  Task task;
  // Of keys that answer together.
  plan::Subset ran = 0;      // have answered; 0: every one that was tried has failed
  plan::Subset planned = 0;  // were to answer; includes what has failed, and ran
  plan::Subset failed = 0;
  // What it would have had at the price of worker time, were there any amount of that; 0: the
  // policy knows no price.
  plan::Subset wanted = 0;
  bool at_last = false;  // its last moment had come
};

inline Kind kind_of(const ServiceInfo& info) { return static_cast<Kind>(info.index()); }

}  // namespace fermata::policy
