#include "engine/catalog.h"

#include <algorithm>
#include <array>

#include "base/status.h"

namespace fermata::engine {

std::string_view name(ModelState state) {
  static constexpr std::array<std::string_view, 5> kNames = {"UNKNOWN", "READY", "UNAVAILABLE",
                                                             "LOADING", "UNLOADING"};
  return kNames[static_cast<size_t>(state)];
}

const Service* Catalog::find(std::string_view service) const {
  const auto it = std::lower_bound(services.begin(), services.end(), service,
                                   [](const auto& known, std::string_view name) {
                                     return std::string_view(known->name) < name;
                                   });
  return it == services.end() || (*it)->name != service ? nullptr : it->get();
}

absl::StatusOr<std::shared_ptr<const Variant>> Catalog::find(std::string_view service,
                                                             std::string_view version) const {
  const Service* found = find(service);
  if (found == nullptr) return not_found("Request for unknown model: '{}'", service);
  if (found->versions.empty()) {
    return error(absl::StatusCode::kUnavailable, "model '{}' is not ready{}{}", service,
                 found->trouble.empty() ? "" : ": ", found->trouble);
  }
  if (version.empty()) return found->versions.back();
  for (const auto& variant : found->versions) {
    if (variant->version == version) return variant;
  }
  return not_found(
      "Request for unknown version: model '{}' has no version '{}'; the newest that is ready is {}",
      service, version, found->versions.back()->version);
}

}  // namespace fermata::engine
