#include "cluster/worker/worker_slots.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"

namespace fermata::cluster {

bool WorkerSlots::is_known(const Slot& slot, VariantId id) {
  return absl::c_any_of(slot.by_number, [id](const auto& each) { return each.second->id == id; });
}

void WorkerSlots::begin() {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    slot.by_number.clear();
    slot.settled = false;
  }
}

absl::Status WorkerSlots::load(uint32_t slot, uint32_t number, const Model& model) {
  if (slot >= slots_.size()) return invalid("slot {}, expected less than {}", slot, slots_.size());
  Slot& own = slots_[slot];
  {
    const std::lock_guard lock(mutex_);
    if (own.loaded.contains(model->id)) {
      own.by_number[number] = model;
      return absl::OkStatus();
    }
  }
  RETURN_IF_ERROR(own.executor->load(model));
  const std::lock_guard lock(mutex_);
  own.loaded.insert(model->id);
  own.by_number[number] = model;
  return absl::OkStatus();
}

// Under the lock, which takes no time: else one that is loaded meanwhile would go.
void WorkerSlots::settle(uint32_t slot) {
  Slot& own = slots_[slot];
  const std::lock_guard lock(mutex_);
  if (std::exchange(own.settled, true)) return;
  std::erase_if(own.loaded, [&own](VariantId id) {
    if (is_known(own, id)) return false;
    own.executor->unload(id);
    return true;
  });
}

void WorkerSlots::unload(uint32_t slot, uint32_t number) {
  Slot& own = slots_[slot];
  const std::lock_guard lock(mutex_);
  const auto it = own.by_number.find(number);
  if (it == own.by_number.end()) return;
  const Model gone = std::move(it->second);
  own.by_number.erase(it);
  if (is_known(own, gone->id)) return;
  own.loaded.erase(gone->id);
  own.executor->unload(gone->id);
}

WorkerSlots::Model WorkerSlots::find(uint32_t slot, uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto it = slots_[slot].by_number.find(number);
  return it == slots_[slot].by_number.end() ? nullptr : it->second;
}

}  // namespace fermata::cluster
