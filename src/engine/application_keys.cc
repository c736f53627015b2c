#include "engine/application_keys.h"

#include <algorithm>

namespace fermata::engine {

KeyId ApplicationKeys::intern(const std::shared_ptr<const Application>& application,
                              const Shape& shape) {
  for (const auto& [key, known] : known_) {
    if (known.application == application && known.shape == shape && !known.retired) return key;
  }
  Known known{.application = application, .shape = shape};
  policy::ApplicationInfo info = application->info;
  for (size_t v = 0; v < application->variants.size(); ++v) {
    ServedVariant* served = keys_.served(application->variants[v]->id);
    const KeyId key = served == nullptr ? KeyId::none() : keys_.intern(*served, shape);
    if (key.is_none()) {
      for (const KeyId held : known.variants) keys_.task_ended(held);
      return key;
    }
    keys_.task_added(key);
    known.variants.push_back(key);
    info.variants[v].key = key;
  }
  const KeyId key = scheduler_.add_application(info);
  known_[key] = std::move(known);
  return key;
}

void ApplicationKeys::task_ended(KeyId key) {
  Known& known = known_.at(key);
  if (--known.tasks == 0 && known.retired) remove(key);
}

void ApplicationKeys::retire(VariantId variant) {
  std::vector<KeyId> done;
  for (auto& [key, known] : known_) {
    if (!known.application->uses(variant)) continue;
    known.retired = true;
    if (known.tasks == 0) done.push_back(key);
  }
  for (const KeyId key : done) remove(key);
}

void ApplicationKeys::remove(KeyId key) {
  const std::vector<KeyId> variants = std::move(known_.at(key).variants);
  scheduler_.remove_key(key);
  known_.erase(key);
  for (const KeyId held : variants) keys_.task_ended(held);
}

}  // namespace fermata::engine
