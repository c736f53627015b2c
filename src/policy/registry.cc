#include <fmt/ranges.h>

#include <algorithm>

#include "base/status.h"
#include "policy/ensemble/ensemble_batcher.h"
#include "policy/parts.h"
#include "policy/pool/pool_ranker.h"
#include "policy/pool/pool_scheduler.h"
#include "policy/rivals/ensemble_scheduler.h"
#include "policy/rivals/nexus.h"
#include "policy/rivals/window_scheduler.h"
#include "policy/shared_batcher.h"
#include "policy/variants/variants_batcher.h"

namespace fermata::policy {
namespace {

constexpr std::string_view kNexus = "nexus";  // a scheduler of its own, not in two parts

struct EnsembleEntry {
  std::string_view name;
  EnsembleMethod method;
};

constexpr EnsembleEntry kEnsembleMethods[] = {
    {"schemble", EnsembleMethod::kSchemble},      {"greedy-edf", EnsembleMethod::kGreedyEdf},
    {"greedy-fifo", EnsembleMethod::kGreedyFifo}, {"greedy-sjf", EnsembleMethod::kGreedySjf},
    {"original", EnsembleMethod::kOriginal},      {"static", EnsembleMethod::kStatic},
    {"selected", EnsembleMethod::kSelected},
};

}  // namespace

absl::StatusOr<Parts> make_parts(std::string_view policy, const std::optional<Rules>& rules) {
  const Rules* row = policy_rules(policy);
  if (row == nullptr) {
    std::vector<std::string_view> names;
    for (const PolicyRow& known : policy_rows()) names.push_back(known.policy);
    return invalid("no policy made of rules is called '{}', expected one of {}", policy,
                   fmt::join(names, ", "));
  }
  const Rules& own = rules ? *rules : *row;
  return Parts{own, std::make_unique<PoolRanker>(own)};
}

std::unique_ptr<SharedBatcher> make_shared_batcher(Kind kind, KeyId key, DelayBound delay,
                                                   const PoolView& pool,
                                                   const ServiceSettings& settings) {
  if (kind == Kind::kVariants) return std::make_unique<VariantsBatcher>(key, delay, pool, settings);
  return std::make_unique<EnsembleBatcher>(key, delay, pool);
}

absl::StatusOr<std::unique_ptr<Scheduler>> make_scheduler(std::string_view policy,
                                                          const ServiceSettings& settings) {
  if (policy_rules(policy) != nullptr) {
    ASSIGN_OR_RETURN(Parts parts, make_parts(policy, settings.rules));
    return std::make_unique<PoolScheduler>(std::move(parts), settings);
  }
  if (settings.rules) return invalid("the policy '{}' has no rules to change", policy);
  const auto groups = plan::published_group_policy_names();
  if (const auto it = std::find(groups.begin(), groups.end(), policy); it != groups.end()) {
    return std::make_unique<WindowScheduler>(static_cast<plan::GroupPolicy>(it - groups.begin()),
                                             settings);
  }
  for (const EnsembleEntry& entry : kEnsembleMethods) {
    if (entry.name == policy)
      return std::make_unique<EnsembleScheduler>(entry.method, settings.delta);
  }
  if (policy == kNexus) return std::make_unique<NexusScheduler>();
  return invalid("no policy is called '{}', expected one of {}", policy,
                 fmt::join(all_scheduler_names(), ", "));
}

std::vector<std::string_view> scheduler_names() {
  std::vector<std::string_view> names;
  for (const PolicyRow& row : policy_rows()) names.push_back(row.policy);
  names.push_back(kNexus);
  return names;
}

std::vector<std::string_view> all_scheduler_names() {
  std::vector<std::string_view> names = scheduler_names();
  const auto groups = plan::published_group_policy_names();
  names.insert(names.end(), groups.begin(), groups.end());
  for (const EnsembleEntry& entry : kEnsembleMethods) names.push_back(entry.name);
  return names;
}

}  // namespace fermata::policy
