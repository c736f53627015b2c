#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/catalog.h"
#include "policy/scheduler.h"

namespace fermata::engine {

// A service that several loaded variants answer: one of them (Application), or some of them
// together (Ensemble). Immutable: a reload of one of them makes a new one.
struct Compound {
  virtual ~Compound() = default;

  // What clients see: the service's name, version 1, its own signature.
  std::shared_ptr<const Variant> facade;
  std::vector<std::shared_ptr<const Variant>> variants;  // at least one

  bool uses(VariantId id) const {
    return std::any_of(variants.begin(), variants.end(),
                       [id](const auto& variant) { return variant->id == id; });
  }
  // Makes it known to a scheduler, whose keys of its variants are `keys`, in their order.
  virtual KeyId add_to(policy::Scheduler& scheduler, const std::vector<KeyId>& keys) const = 0;
};

}  // namespace fermata::engine
