#include "policy/scheduler.h"

namespace fermata::policy {

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
