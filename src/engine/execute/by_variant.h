#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "engine/catalog.h"

namespace fermata::engine {

// What a worker has of each of its loaded variants. Thread-safe.
template <class Loaded>
class ByVariant {
 public:
  void put(VariantId id, std::shared_ptr<Loaded> loaded) {
    const std::lock_guard lock(mutex_);
    loaded_[id].swap(loaded);
  }
  void remove(VariantId id) {
    std::shared_ptr<Loaded> gone;  // freed without the lock
    const std::lock_guard lock(mutex_);
    if (const auto it = loaded_.find(id); it != loaded_.end()) {
      gone = std::move(it->second);
      loaded_.erase(it);
    }
  }
  // Null where it is not loaded.
  std::shared_ptr<Loaded> find(VariantId id) const {
    const std::lock_guard lock(mutex_);
    const auto it = loaded_.find(id);
    return it == loaded_.end() ? nullptr : it->second;
  }
  std::shared_ptr<Loaded> at(VariantId id) const {
    auto loaded = find(id);
    FERMATA_CHECK(loaded != nullptr);
    return loaded;
  }
  // Under the lock.
  template <class Visit>
  void each(const Visit& visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, loaded] : loaded_) visit(*loaded);
  }

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<VariantId, std::shared_ptr<Loaded>> loaded_;
};

}  // namespace fermata::engine
