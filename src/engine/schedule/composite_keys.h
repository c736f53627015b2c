#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/composite/composite.h"
#include "engine/schedule/key_table.h"
#include "policy/scheduler.h"

namespace fermata::engine {

// The scheduler's keys of composites: composite times shape per item, made when first
// seen. Each holds on to the keys of its variants for as long as it is there; where keys run
// short the ones that were idle for longest go. Scheduler thread.
class CompositeKeys {
 public:
  CompositeKeys(policy::Scheduler& scheduler, KeyTable& keys);

  bool has(KeyId key) const { return known_.contains(key); }
  // The keys of its variants.
  const std::vector<KeyId>& variants(KeyId key) const { return known_.at(key).variants; }
  // None where one of its variants is gone, or has no key to give.
  KeyId intern(const std::shared_ptr<const Composite>& composite, const Shape& shape);
  void task_added(KeyId key);
  void task_ended(KeyId key);
  // A variant goes: what uses it takes nothing new and goes when its tasks have ended.
  void retire(VariantId variant);

 private:
  struct Known {
    std::shared_ptr<const Composite> composite;
    Shape shape;
    std::vector<KeyId> variants;
    uint64_t tasks = 0;  // waiting or running
    uint64_t last_used = 0;
    bool retired = false;
  };
  using Place = std::pair<const Composite*, Shape>;
  bool hold_variants(Known& known);
  bool drop_an_idle_key(VariantId variant);  // that holds keys of it
  void remove(KeyId key);

  policy::Scheduler& scheduler_;
  KeyTable& keys_;
  absl::flat_hash_map<KeyId, Known> known_;
  absl::flat_hash_map<Place, KeyId> by_place_;  // of those that are not retired
  uint64_t uses_ = 0;
};

}  // namespace fermata::engine
