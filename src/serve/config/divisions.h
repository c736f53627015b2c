#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cluster/options.h"
#include "engine/options.h"
#include "serve/config/config.h"

namespace fermata::serve {

// Models divided over several schedulers, each with workers of its own (Symphony 4.6 divides them
// over sub-clusters of one). A model that stands in no division is of the first.

// INVALID_ARGUMENT where a service about whose models one scheduler has to decide has some of
// several divisions, and where a division names a service.
absl::Status check_divisions(const cluster::Options& cluster,
                             const std::vector<engine::ServiceOptions>& services);

// What divisions name and is none of the `models`, a line each, which says what was probably meant:
// a model may come later, and a misspelt one is of the first division.
std::vector<std::string> unknown_in_divisions(const cluster::Options& cluster,
                                              const std::vector<std::string>& models);
// Of the models that its repository has; nothing where that cannot be read.
std::vector<std::string> unknown_in_divisions(const Config& config);

// Leaves what the scheduler of that division serves: its models, and the services that need no
// others; a file or a Lease by which one of its schedulers is active is its own. Empty: there has
// to be no division. INVALID_ARGUMENT says which there are.
absl::Status take_division(const std::string& name, cluster::Options& cluster,
                           engine::EngineOptions& engine);

}  // namespace fermata::serve
