#include "engine/host/placement_log.h"

#include <array>

namespace fermata::engine {

std::string_view name(PlacementChange::Result result) {
  static constexpr std::array<std::string_view, 3> kNames = {"done", "postponed", "failed"};
  return kNames[static_cast<size_t>(result)];
}

void PlacementLog::count(const PlacementChange& change) {
  switch (change.result) {
    case PlacementChange::Result::kDone:
      ++(change.from ? totals_.moves : totals_.loads);
      break;
    case PlacementChange::Result::kPostponed:
      ++totals_.postponed;
      break;
    case PlacementChange::Result::kFailed:
      ++totals_.failed;
      break;
  }
}

void PlacementLog::add(const char* cause, Time at, Duration took, const plan::EpochPlan& plan,
                       std::vector<PlacementChange> changes) {
  const std::lock_guard lock(mutex_);
  for (const PlacementChange& change : changes) count(change);
  for (const auto& [problem, answer] : plan.steps) {
    decisions_.push_front({++numbers_, cause, at, took, problem, answer, false, {}});
  }
  if (!plan.steps.empty()) {
    decisions_.front().stayed = plan.stay;
    decisions_.front().changes = std::move(changes);
  }
  if (decisions_.size() > kKept) decisions_.resize(kKept);
}

void PlacementLog::epoch_ended(Duration took, Duration planned, const plan::Placement& now) {
  const std::lock_guard lock(mutex_);
  ++totals_.epochs;
  totals_.last_epoch = took;
  totals_.last_plan = planned;
  totals_.rate_imbalance = now.rate_imbalance;
  totals_.memory_imbalance = now.memory_imbalance;
}

std::vector<PlacementDecision> PlacementLog::decisions() const {
  const std::lock_guard lock(mutex_);
  return {decisions_.begin(), decisions_.end()};
}

PlacementSnapshot PlacementLog::snapshot() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace fermata::engine
