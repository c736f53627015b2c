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
    is_ahead_.push_back(false);
  } else {
    at = unused_.back();
    unused_.pop_back();
  }
  models_[at] = {info.name, info.load, info.memory_bytes};
  is_ahead_[at] = false;
  if (info.variant.is_none()) return at;
  models_of_[info.variant] = at;
  if (const auto it = ahead_.find(info.variant); it != ahead_.end()) {
    is_ahead_[at] = true;
    for (const uint32_t worker : it->second) workers_[worker].loaded.push_back(at);
    ahead_.erase(it);
  }
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
  for (const auto& [variant, known] : models_of_) {
    if (known == model && is_ahead_[model]) ahead_[variant] = holders(model);
  }
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

void Residents::hold(WorkerId id, VariantId variant, bool there) {
  const auto change = [there](std::vector<uint32_t>& all, size_t one) {
    std::erase(all, one);
    if (there) all.push_back(static_cast<uint32_t>(one));
  };
  if (const auto it = models_of_.find(variant); it != models_of_.end()) {
    is_ahead_[it->second] = true;
    return change(workers_[id.index()].loaded, it->second);
  }
  std::vector<uint32_t>& workers = ahead_[variant];
  change(workers, id.index());
  if (workers.empty()) ahead_.erase(variant);
}

std::vector<uint32_t> Residents::holders(uint32_t model) const {
  std::vector<uint32_t> all;
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    const std::vector<uint32_t>& loaded = workers_[w].loaded;
    if (std::find(loaded.begin(), loaded.end(), model) != loaded.end()) all.push_back(w);
  }
  return all;
}

std::optional<bool> Residents::holds_ahead(WorkerId id, KeyId key) const {
  const uint32_t model = keys_[key.index()];
  if (!is_ahead_[model]) return std::nullopt;
  const std::vector<uint32_t>& loaded = workers_[id.index()].loaded;
  return std::find(loaded.begin(), loaded.end(), model) != loaded.end();
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
