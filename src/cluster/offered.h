#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster.pb.h"
#include "engine/engine.h"

namespace fermata::cluster {

// What a scheduler serves, as its frontends know it: what they need to check requests and to answer
// questions about models. Files, profiles and workers are not in it.
struct Offer {
  std::shared_ptr<const engine::Catalog> catalog;
  std::vector<engine::ModelStatus> index, unserved;
};

void write_catalog(const engine::Catalog& catalog, Offered& to);
void write_rows(const engine::Engine& engine, Offered& to);  // index and what is not served
// INVALID_ARGUMENT says what no scheduler sends.
absl::StatusOr<Offer> read_offered(const Offered& from);

}  // namespace fermata::cluster
