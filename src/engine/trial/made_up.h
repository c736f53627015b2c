#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/catalog.h"
#include "model/tensor.h"

namespace fermata::engine {

// Inputs that nobody sent, to try or to measure a variant with. Optional ones are left out.

using Shapes = std::map<std::string, Shape>;  // per item, of inputs with free dimensions

// Those of all inputs with free dimensions: as `given`, else as model_warmup has them, else with
// `free_dimension` in the place of each.
Shapes item_shapes(const Variant& variant, const Shapes& given, int64_t free_dimension);
// INVALID_ARGUMENT names an input that there is not, or that the shape does not fit.
absl::Status check_shapes(const Variant& variant, const Shapes& shapes);
const Shape& item_shape(const TensorSpec& spec, const Shapes& shapes);
// What so many items take, BYTES counted as empty.
double input_bytes(const Variant& variant, const Shapes& shapes, uint32_t items);

// What made-up values look like: models take some and refuse others.
enum class MadeUp : uint8_t {
  kZeros,
  kVaried,  // numbers of either sign and different size, whole numbers and texts 0 and 1
  kLikely,  // numbers in [0, 1), as those of pictures; whole numbers and texts 1 and 2
};

// One tensor for each input, in the signature's order: the items `rows`, or the one input of a
// variant that does not batch. The same number makes the same item in every batch; other numbers
// make others, but of kZeros. O(elements).
std::vector<Tensor> made_up_inputs(const Variant& variant, const Shapes& shapes, MadeUp kind,
                                   absl::Span<const uint32_t> rows);

}  // namespace fermata::engine
