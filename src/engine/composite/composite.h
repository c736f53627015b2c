#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/catalog.h"
#include "policy/service.h"

namespace fermata::engine {

// Who answered a request that was short-circuited.
inline constexpr std::string_view kEvidence = "evidence";

// A service that several loaded variants answer: one of them (VariantsService), or some of them
// together (EnsembleService). Immutable: a reload of one of them makes a new one.
struct Composite {
  virtual ~Composite() = default;

  // What clients see: the service's name, version 1, its own signature.
  std::shared_ptr<const Variant> public_model;
  std::vector<std::shared_ptr<const Variant>> variants;  // at least one

  bool uses(VariantId id) const {
    return std::any_of(variants.begin(), variants.end(),
                       [id](const auto& variant) { return variant->id == id; });
  }
  // For a scheduler, whose keys of its variants are `keys`, in their order.
  virtual policy::ServiceInfo info_for(const std::vector<KeyId>& keys) const = 0;
};

// What clients see of it, to begin with: `first`, under the service's name.
inline std::shared_ptr<Variant> make_public_model(const std::string& service, const Variant& first,
                                                  VariantId id) {
  auto public_model = std::make_shared<Variant>(first);
  public_model->id = id;
  public_model->model = service;
  public_model->notes.clear();                  // they are of `first` itself
  public_model->version = std::string(1, '1');  // a literal trips over a warning of g++ 12
  return public_model;
}

}  // namespace fermata::engine
