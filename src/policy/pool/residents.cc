#include "policy/pool/residents.h"

#include <algorithm>

namespace fermata::policy {

uint32_t Residents::new_model(const KeyInfo& info) {
  if (!info.variant.is_none()) {  // keys of no variant share nothing
    if (const auto it = models_of_.find(info.variant); it != models_of_.end()) return it->second;
  }
  auto at = static_cast<uint32_t>(models_.size());
  if (unused_.empty()) {
    models_.emplace_back();
    users_.push_back(0);
  } else {
    at = unused_.back();
    unused_.pop_back();
  }
  models_[at] = {info.name, info.load, info.memory_bytes};
  if (!info.variant.is_none()) models_of_[info.variant] = at;
  return at;
}

void Residents::add_key(KeyId key, const KeyInfo& info) {
  const uint32_t model = new_model(info);
  keys_.resize(std::max(keys_.size(), key.index() + size_t{1}));
  keys_[key.index()] = model;
  if (users_[model]++ > 0 || !is_free(models_[model])) return;
  for (plan::GroupWorker& worker : workers_) {
    if (worker.memory_bytes != kUnlimitedMemory) worker.loaded.push_back(model);
  }
}

void Residents::remove_key(KeyId key) {
  const uint32_t model = keys_[key.index()];
  if (--users_[model] > 0) return;
  absl::erase_if(models_of_, [model](const auto& known) { return known.second == model; });
  for (plan::GroupWorker& worker : workers_) std::erase(worker.loaded, model);
  models_[model] = {};
  unused_.push_back(model);
}

void Residents::add_worker(int64_t memory_bytes) {
  plan::GroupWorker& worker = workers_.emplace_back();
  worker.memory_bytes = memory_bytes;
  if (memory_bytes == kUnlimitedMemory) return;
  for (uint32_t model = 0; model < models_.size(); ++model) {
    if (users_[model] > 0 && is_free(models_[model])) worker.loaded.push_back(model);
  }
}

bool Residents::use(WorkerId id, KeyId key) {
  plan::GroupWorker& worker = workers_[id.index()];
  if (worker.memory_bytes == kUnlimitedMemory) return false;
  residency_.reset(worker, models_);
  const bool load = residency_.use(model_of(key));
  worker.loaded.assign(residency_.loaded().begin(), residency_.loaded().end());
  return load;
}

void Residents::unload(WorkerId worker, KeyId key) {
  std::erase(workers_[worker.index()].loaded, model_of(key));
}

void Residents::describe(WorkerId id, plan::GroupWorker& to) const {
  const plan::GroupWorker& worker = workers_[id.index()];
  to.memory_bytes = worker.memory_bytes;
  to.loaded = worker.loaded;
  if (worker.memory_bytes != kUnlimitedMemory) return;
  for (uint32_t model = 0; model < models_.size(); ++model) {
    if (users_[model] > 0) to.loaded.push_back(model);
  }
}

}  // namespace fermata::policy
