#include "engine/compound_keys.h"

#include <algorithm>

namespace fermata::engine {

KeyId CompoundKeys::intern(const std::shared_ptr<const Compound>& compound, const Shape& shape) {
  for (const auto& [key, known] : known_) {
    if (known.compound == compound && known.shape == shape && !known.retired) return key;
  }
  Known known{.compound = compound, .shape = shape};
  for (const auto& variant : compound->variants) {
    ServedVariant* served = keys_.served(variant->id);
    const KeyId key = served == nullptr ? KeyId::none() : keys_.intern(*served, shape);
    if (key.is_none()) {
      for (const KeyId held : known.variants) keys_.task_ended(held);
      return key;
    }
    keys_.task_added(key);
    known.variants.push_back(key);
  }
  const KeyId key = compound->add_to(scheduler_, known.variants);
  known_[key] = std::move(known);
  return key;
}

void CompoundKeys::task_ended(KeyId key) {
  Known& known = known_.at(key);
  if (--known.tasks == 0 && known.retired) remove(key);
}

void CompoundKeys::retire(VariantId variant) {
  std::vector<KeyId> done;
  for (auto& [key, known] : known_) {
    if (!known.compound->uses(variant)) continue;
    known.retired = true;
    if (known.tasks == 0) done.push_back(key);
  }
  for (const KeyId key : done) remove(key);
}

void CompoundKeys::remove(KeyId key) {
  const std::vector<KeyId> variants = std::move(known_.at(key).variants);
  scheduler_.remove_key(key);
  known_.erase(key);
  for (const KeyId held : variants) keys_.task_ended(held);
}

}  // namespace fermata::engine
