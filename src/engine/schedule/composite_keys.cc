#include "engine/schedule/composite_keys.h"

namespace fermata::engine {

CompositeKeys::CompositeKeys(policy::Scheduler& scheduler, KeyTable& keys)
    : scheduler_(scheduler), keys_(keys) {
  keys_.when_short([this](VariantId variant) { return drop_an_idle_key(variant); });
}

KeyId CompositeKeys::intern(const std::shared_ptr<const Composite>& composite, const Shape& shape) {
  const Place place(composite.get(), shape);
  if (const auto it = by_place_.find(place); it != by_place_.end()) return it->second;
  Known known{.composite = composite, .shape = shape, .last_used = ++uses_};
  if (!hold_variants(known)) return KeyId::none();
  const KeyId key = scheduler_.add_service(composite->info_for(known.variants));
  known_[key] = std::move(known);
  by_place_[place] = key;
  return key;
}

// All of them, or none.
bool CompositeKeys::hold_variants(Known& known) {
  for (const auto& variant : known.composite->variants) {
    ServedVariant* served = keys_.served(variant->id);
    const KeyId key = served == nullptr ? KeyId::none() : keys_.intern(*served, known.shape);
    if (key.is_none()) {
      for (const KeyId held : known.variants) keys_.task_ended(held);
      return false;
    }
    keys_.task_added(key);
    known.variants.push_back(key);
  }
  return true;
}

bool CompositeKeys::drop_an_idle_key(VariantId variant) {
  KeyId oldest;
  uint64_t used = 0;
  for (const auto& [key, known] : known_) {
    if (known.tasks > 0 || !known.composite->uses(variant) ||
        (!oldest.is_none() && known.last_used > used))
      continue;
    oldest = key;
    used = known.last_used;
  }
  if (oldest.is_none()) return false;
  remove(oldest);
  return true;
}

void CompositeKeys::task_added(KeyId key) {
  Known& known = known_.at(key);
  ++known.tasks;
  known.last_used = ++uses_;
}

void CompositeKeys::task_ended(KeyId key) {
  Known& known = known_.at(key);
  if (--known.tasks == 0 && known.retired) remove(key);
}

void CompositeKeys::retire(VariantId variant) {
  std::vector<KeyId> done;
  for (auto& [key, known] : known_) {
    if (!known.composite->uses(variant)) continue;
    known.retired = true;
    by_place_.erase({known.composite.get(), known.shape});
    if (known.tasks == 0) done.push_back(key);
  }
  for (const KeyId key : done) remove(key);
}

void CompositeKeys::remove(KeyId key) {
  const Known known = std::move(known_.at(key));
  scheduler_.remove_key(key);
  known_.erase(key);
  if (!known.retired) by_place_.erase({known.composite.get(), known.shape});
  for (const KeyId held : known.variants) keys_.task_ended(held);
}

}  // namespace fermata::engine
