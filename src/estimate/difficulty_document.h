#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/document.h"
#include "estimate/difficulty.h"

namespace fermata::estimate {

// The document that `fermata difficulty fit` writes as profile.json
// (docs/schemas/difficulty.profile.schema.json).
Json difficulty_json(const DifficultyProfile& profile);

// Utilities must be there for every subset but the empty one, in [0, 1]; they may be stated by
// hand and need not be monotone.
DifficultyProfile read_difficulty(Reader reader);

// One text of it. INVALID_ARGUMENT names `source`, the path, what stands there and what was
// expected.
absl::StatusOr<DifficultyProfile> parse_difficulty(std::string_view json, std::string_view source);

}  // namespace fermata::estimate
