#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options.h"

namespace fermata::engine {

// The models of the repository that are the engine's, in order. As model_names() fails.
absl::StatusOr<std::vector<std::string>> models_in_repository(const EngineOptions& options);

// All models that have to be in the repository for a service. Of a stream none: its variants are
// services.
std::vector<std::string> all_models_of(const ServiceOptions& service);

// The models under all of its members, however deep; each once, in their order.
std::vector<std::string> all_models_under(const ServiceOptions& service,
                                          const std::vector<ServiceOptions>& services);

// Adds to the names of models the names of the services that need one of them, directly or through
// other services. O(services x members x log names), as often as services are nested.
void add_dependents(std::set<std::string>& names, const std::vector<ServiceOptions>& services,
                    const std::vector<ServiceOptions>& streams);

}  // namespace fermata::engine
