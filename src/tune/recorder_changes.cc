// What a recorder tells someone who shows what happens.
#include <algorithm>
#include <utility>

#include "tune/recorder.h"

namespace fermata::tune {
namespace {

constexpr size_t kLookedAt = 16384;  // of the last requests, for those that wait

}  // namespace

void Recorder::watch(bool on) {
  const std::lock_guard lock(mutex_);
  watched_ = on;
  changed_.clear();
  new_loads_.clear();
  new_deaths_.clear();
  left_out_ = 0;
}

Recorder::Changes Recorder::take_changes(size_t most_waiting) {
  const std::lock_guard lock(mutex_);
  Changes changes;
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  changes.left_out = std::exchange(left_out_, 0);
  for (const uint64_t id : changed_) {
    const RecordedBatch* const own = batches_.find(id);
    if (own == nullptr) continue;
    if (changes.batches.size() == kMostChanges) {
      ++changes.left_out;
      continue;
    }
    add_to(changes, *own);
  }
  changed_.clear();
  changes.loads = std::exchange(new_loads_, {});
  changes.deaths = std::exchange(new_deaths_, {});
  add_waiting(changes, most_waiting);
  return changes;
}

Recorder::Changes Recorder::latest(size_t most_batches, size_t most_waiting) const {
  const std::lock_guard lock(mutex_);
  Changes changes;
  for (size_t i = batches_.size() - std::min(batches_.size(), most_batches); i < batches_.size();
       ++i)
    add_to(changes, batches_[i]);
  const auto few = static_cast<ptrdiff_t>(std::min(loads_.size(), kMostChanges));
  changes.loads.assign(loads_.end() - few, loads_.end());
  const auto died = static_cast<ptrdiff_t>(std::min(deaths_.size(), kMostChanges));
  changes.deaths.assign(deaths_.end() - died, deaths_.end());
  add_waiting(changes, most_waiting);
  return changes;
}

void Recorder::add_to(Changes& changes, const RecordedBatch& batch) const {
  changes.batches.push_back(batch);
  auto& shown = changes.requests.emplace_back();
  for (size_t i = 0; i < std::min(batch.requests.size(), kMostShown); ++i) {
    const RecordedRequest* const each = requests_.find(batch.requests[i].value());
    if (each != nullptr) shown.push_back(*each);
  }
}

void Recorder::add_waiting(Changes& changes, size_t most) const {
  const size_t first = requests_.size() - std::min(requests_.size(), kLookedAt);
  for (size_t i = first; i < requests_.size(); ++i) {
    const RecordedRequest& each = requests_[i];
    if (!each.ended() && each.batch == 0 && !each.has_parts) changes.waiting.push_back(each);
  }
  std::stable_sort(changes.waiting.begin(), changes.waiting.end(),
                   [](const auto& a, const auto& b) { return a.deadline < b.deadline; });
  if (changes.waiting.size() > most) changes.waiting.resize(most);
}

}  // namespace fermata::tune
