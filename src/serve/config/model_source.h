#pragma once

#include "absl/status/status.h"
#include "serve/config/config.h"

namespace fermata::serve {

// Where `models` is a place in a store (s3://...): brings it into a folder, which becomes the
// repository, and has models that are loaded later brought there too. Where the store cannot be
// reached, what an earlier run has brought is served, with a warning. Otherwise does nothing.
// Blocks.
absl::Status bring_models(Config& config);

}  // namespace fermata::serve
