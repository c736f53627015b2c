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

// In how many parts a request runs.
struct PartLimit {
  uint32_t items = std::numeric_limits<uint32_t>::max();  // of one part
  uint32_t parts = 1;                                     // at most: limits.request_parts
};
// OUT_OF_RANGE says how many parts there would be.
absl::Status check_parts(uint64_t items, const PartLimit& limit);

// Checks names, datatypes, shapes and sizes, and puts the inputs into the signature's
// order. A request to a model that batches keeps `limit`, and each of its items has
// bytes. INVALID_ARGUMENT, or OUT_OF_RANGE of too many items, names the input, what was sent and
// what was expected. O(bytes) for BYTES, else O(dimensions).
absl::StatusOr<Admitted> admit(InferRequest& request, const Signature& signature,
                               const PartLimit& limit = {});

}  // namespace fermata::engine
