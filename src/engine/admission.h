#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "engine/request.h"
#include "model/signature.h"

namespace fermata::engine {

// A request that fits its model.
struct Admitted {
  uint32_t items = 1;
  // What may share a batch: the shape per item of every input, in the signature's
  // order; empty where the model has only one.
  Shape shape;
};

// Checks names, datatypes, shapes and sizes, and puts the inputs into the signature's
// order. A request to a model that batches has at most `most_items` items, and each of them has
// bytes. INVALID_ARGUMENT names the input, what was sent and what was expected.
// O(bytes) for BYTES, else O(dimensions).
absl::StatusOr<Admitted> admit(InferRequest& request, const Signature& signature,
                               uint64_t most_items = std::numeric_limits<uint32_t>::max());

}  // namespace fermata::engine
