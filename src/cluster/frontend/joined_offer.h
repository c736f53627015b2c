#pragma once

#include <vector>

#include "cluster/wire/offered.h"
#include "engine/catalog.h"

namespace fermata::cluster {

// What the schedulers of all divisions offer together, of what several offer the first.
Offer join_offers(const std::vector<const Offer*>& offers);
// Rows of services of models of several divisions, which no scheduler knows.
void add_services(const engine::Catalog& catalog, std::vector<engine::ModelStatus>& index);

}  // namespace fermata::cluster
