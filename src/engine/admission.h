#pragma once

#include <cstdint>

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
// order. INVALID_ARGUMENT names the input, what was sent and what was expected.
// O(bytes) for BYTES, else O(dimensions).
absl::StatusOr<Admitted> admit(InferRequest& request, const Signature& signature);

}  // namespace fermata::engine
