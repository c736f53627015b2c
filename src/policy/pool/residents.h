#pragma once

#include <cstdint>
#include <optional>
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
  // The worker has loaded a variant before anybody needs it, or has let it go. From then on the
  // variant is one that is loaded ahead, whichever worker has it.
  void hold(WorkerId worker, VariantId variant, bool there);
  // Of a key's variant, if it is loaded ahead, whether the worker has it; of others nothing.
  std::optional<bool> holds_ahead(WorkerId worker, KeyId key) const;
  // The memory of the worker and what it holds.
  void describe(WorkerId worker, plan::GroupWorker& to) const;

 private:
  uint32_t new_model(const KeyInfo& info);
  std::vector<uint32_t> holders(uint32_t model) const;
  static bool is_free(const plan::GroupModel& m) {  // to load and to hold
    return m.memory_bytes == 0 && m.load == Duration();
  }

  std::vector<uint32_t> keys_;  // their models
  absl::flat_hash_map<VariantId, uint32_t> models_of_;
  std::vector<plan::GroupModel> models_;
  std::vector<uint32_t> users_;   // keys by model
  std::vector<uint32_t> unused_;  // models that no key has any more
  // The workers that have it, of a variant that is loaded ahead, while no key does.
  absl::flat_hash_map<VariantId, std::vector<uint32_t>> ahead_;
  std::vector<bool> is_ahead_;              // by model
  std::vector<plan::GroupWorker> workers_;  // memory, and what is loaded where that has a limit
  plan::Residency residency_;
};

}  // namespace fermata::policy
