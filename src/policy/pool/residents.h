#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plan/variants/residency.h"
#include "policy/types.h"

namespace fermata::policy {

// The variants of a pool's keys, as the models of planners' problems, and which of them each worker
// holds. Where memory has a limit they are loaded when they are needed, and the least recently used
// go; else all are there from the beginning. What has been removed leaves nothing behind.
class Residents {
 public:
  void add_key(KeyId key, const KeyInfo& info);
  void remove_key(KeyId key);
  void add_worker(int64_t memory_bytes);

  // A batch of the key is to run on the worker: true where its variant has to be loaded first.
  bool use(WorkerId worker, KeyId key);
  // It was not run after all.
  void unload(WorkerId worker, KeyId key);

  uint32_t model_of(KeyId key) const { return keys_[key.index()]; }
  const std::vector<plan::GroupModel>& models() const { return models_; }
  // The memory of the worker and what it holds.
  void describe(WorkerId worker, plan::GroupWorker& to) const;

 private:
  uint32_t new_model(const KeyInfo& info);
  static bool is_free(const plan::GroupModel& m) {  // to load and to hold
    return m.memory_bytes == 0 && m.load == Duration();
  }

  std::vector<uint32_t> keys_;  // their models
  absl::flat_hash_map<VariantId, uint32_t> models_of_;
  std::vector<plan::GroupModel> models_;
  std::vector<uint32_t> users_;             // keys by model
  std::vector<uint32_t> unused_;            // models that no key has any more
  std::vector<plan::GroupWorker> workers_;  // memory, and what is loaded where that has a limit
  plan::Residency residency_;
};

}  // namespace fermata::policy
