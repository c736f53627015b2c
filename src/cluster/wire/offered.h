#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster.pb.h"
#include "engine/engine.h"
#include "engine/served_models.h"

namespace fermata::cluster {

// What a scheduler serves, as its frontends know it: what they need to check requests, to run
// services that are made of others, and to answer questions about models. Files and workers are not
// in it.
struct Offer {
  engine::ServedModels models;
  std::vector<engine::ModelStatus> index, unserved;
};

// Several schedulers, each of a division of the models, may offer to one frontend: which of them it
// was is in the ids that the frontend gives to versions.
inline constexpr uint32_t kMostVersions = 1 << 24;  // that one offers
inline constexpr uint32_t kMostDivisions = 64;
inline uint32_t division_of(VariantId id) { return id.value() / kMostVersions; }

void write_models(const engine::ServedModels& models, Offered& to);
void write_rows(const engine::Engine& engine, Offered& to);  // index and what is not served
// INVALID_ARGUMENT says what no scheduler sends.
// Its versions get the ids of that division (division_of()).
absl::StatusOr<Offer> read_offered(const Offered& from, uint32_t division = 0);

}  // namespace fermata::cluster
