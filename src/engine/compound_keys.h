#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/compound.h"
#include "engine/key_table.h"
#include "policy/scheduler.h"

namespace fermata::engine {

// The scheduler's keys of compounds: compound times shape per item, made when first
// seen. Each holds on to the keys of its variants for as long as it is there. Scheduler thread.
class CompoundKeys {
 public:
  CompoundKeys(policy::Scheduler& scheduler, KeyTable& keys) : scheduler_(scheduler), keys_(keys) {}

  bool has(KeyId key) const { return known_.contains(key); }
  // None where one of its variants is gone, or has no key to give.
  KeyId intern(const std::shared_ptr<const Compound>& compound, const Shape& shape);
  void task_added(KeyId key) { ++known_.at(key).tasks; }
  void task_ended(KeyId key);
  // A variant goes: what uses it takes nothing new and goes when its tasks have ended.
  void retire(VariantId variant);

 private:
  struct Known {
    std::shared_ptr<const Compound> compound;
    Shape shape;
    std::vector<KeyId> variants;
    uint64_t tasks = 0;  // waiting or running
    bool retired = false;
  };
  void remove(KeyId key);

  policy::Scheduler& scheduler_;
  KeyTable& keys_;
  absl::flat_hash_map<KeyId, Known> known_;
};

}  // namespace fermata::engine
