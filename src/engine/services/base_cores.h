#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/options.h"

// How many threads a dedicated replica has (IPA, equation 1).
namespace fermata::engine {

// Adds to `adapter` what equation 1 says of the models of a stage, from the profiles beside them
// that were written for several numbers of threads, up to what all workers have. Nothing where
// there are none. Reads files; INVALID_ARGUMENT for what is wrong in them.
absl::Status allocate_cores(const EngineOptions& options, const std::string& service,
                            const std::string& stage, const std::vector<std::string>& models,
                            AdapterOptions& adapter);

// What the user says of a model, else what was added, else `otherwise`.
uint32_t threads_of(const AdapterOptions& adapter, const std::string& stage,
                    const std::string& model, uint32_t otherwise);

}  // namespace fermata::engine
