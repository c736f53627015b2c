#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace fermata::estimate {

// Evidence of a small model that classifies (SneakPeek, section 4.2, beside nearest neighbours): as
// many votes as neighbours would have, shared among the classes in proportion to the model's
// scores. Whole votes, the largest remainders first, then the first class. Where a score is
// negative, they are taken for logits. No votes where all scores are 0. Scores are finite.
// O(classes * log classes).
std::vector<uint32_t> votes(absl::Span<const float> scores, uint32_t count);

}  // namespace fermata::estimate
