#pragma once

#include "absl/status/status.h"
#include "engine/options.h"

namespace fermata::engine {

// Fills in, for every pipeline with `replicas: dedicated`, which variants its stages have
// (AdapterOptions::variants) and what they may cost together, and gives the pool a type of worker
// for each number of threads that they ask for, of which it has none itself. INVALID_ARGUMENT where
// a stage is neither a model nor variants that are models, the pool is not one of like workers, or
// a profile is not sound, which it reads. Fills in EngineOptions::replica_models too; `streams` are
// services that were taken from `options`.
absl::Status prepare_dedicated(EngineOptions& options, const std::vector<ServiceOptions>& streams);

}  // namespace fermata::engine
