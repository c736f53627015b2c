#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "estimate/subset.h"
#include "model/tensor.h"

namespace fermata::engine {

// What base models of an ensemble answer, where worker, scheduler and whoever puts answers together
// are apart.

// The numbers that a base model gave for one item. INTERNAL where they are not so many, or one is
// none (NaN, infinity).
absl::StatusOr<std::vector<float>> numbers_of(const Tensor& answer, uint32_t width);

// The only output of a request whose inputs, and answers, are elsewhere: by item, the base models
// whose answers are to be put together there.
Tensor answered_by(estimate::Subset item);
std::vector<estimate::Subset> answered_by(const std::vector<Tensor>& outputs);  // none: of others

}  // namespace fermata::engine
