#include "policy/scheduler.h"

namespace fermata::policy {

std::string_view name(StartRule rule) {
  switch (rule) {
    case StartRule::kAtOnce:
      return "at_once";
    case StartRule::kLatestStart:
      return "latest_start";
    case StartRule::kEarly:
      return "early";
    case StartRule::kFullBatch:
      return "full_batch";
    case StartRule::kNoMatesExpected:
      return "no_mates_expected";
    case StartRule::kSpareWorkers:
      return "spare_workers";
    case StartRule::kHeldLongEnough:
      return "held_long_enough";
    case StartRule::kPlanned:
      return "planned";
    case StartRule::kBestEffort:
      return "best_effort";
    case StartRule::kChosen:
      break;
  }
  return "chosen";
}

Batch& Decisions::add_batch() {
  Batch& batch = bound.emplace_back();
  if (!spare_.empty()) {
    batch.tasks = std::move(spare_.back());
    spare_.pop_back();
  }
  return batch;
}

void Decisions::clear() {
  for (Batch& batch : bound) {
    batch.tasks.clear();
    if (batch.tasks.capacity() > 0) spare_.push_back(std::move(batch.tasks));
  }
  bound.clear();
  dropped.clear();
  concluded.clear();
}

}  // namespace fermata::policy
