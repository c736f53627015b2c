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

void write_models(const engine::ServedModels& models, Offered& to);
void write_rows(const engine::Engine& engine, Offered& to);  // index and what is not served
// INVALID_ARGUMENT says what no scheduler sends.
absl::StatusOr<Offer> read_offered(const Offered& from);

}  // namespace fermata::cluster
