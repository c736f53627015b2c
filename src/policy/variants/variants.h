#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "plan/ensemble/ensemble_problem.h"
#include "plan/variants/group_problem.h"
#include "policy/rules.h"

namespace fermata::policy {

// A variant that may answer the tasks of a service.
struct VariantInfo {
  KeyId key;                   // of this variant and the shape of the service's tasks
  double accuracy = 0;         // profiled (SneakPeek eq. 7)
  std::vector<double> recall;  // by class; empty: unknown, evidence changes nothing
};

// Tasks that any one of several variants may answer (SneakPeek 2.2). Which one does, and
// with whom, is decided when a worker is granted, not before.
struct VariantsInfo {
  std::string name;
  std::vector<VariantInfo> variants;  // at least one
  plan::Penalty penalty;
  std::vector<double> prior;  // of the Dirichlet, by class (eq. 10); empty: not data-aware
  // Accuracy of the evidence model's own answer (5.3.1); absent: it answers nothing itself.
  std::optional<double> short_circuit;
};

// How services that several keys answer are served, beside what they say themselves.
struct ServiceSettings {
  // Of the published policies, which plan once a window; zero: whenever something happens.
  Duration window = Duration::millis(100);
  // Whether decisions look at the data, and whether its evidence may answer by itself. None: as
  // the policy was published, and both under any other.
  std::optional<bool> data_aware, short_circuit;
  // Of the published policies: up to so many groups are planned exactly, and larger ones are split.
  uint32_t tau = plan::GroupProblem().tau, max_group = plan::GroupProblem().max_group;
  double delta = plan::EnsembleProblem().delta;  // of `schemble`
  // Of a policy that has a row in policy_rules(): these instead.
  std::optional<Rules> rules;
};

// How often each class stands among the nearest neighbours of a request (SneakPeek 4.2).
using Evidence = std::vector<uint32_t>;

}  // namespace fermata::policy
