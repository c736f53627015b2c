#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "engine/catalog.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"

namespace fermata::serve {

// The body of an HTTP infer request. With the binary tensor extension the first
// json_length bytes are JSON and tensors follow; else all of it is JSON.
struct InferBody {
  std::string_view bytes;
  std::optional<size_t> json_length;
  std::shared_ptr<const void> owner;  // of the bytes; payloads in the binary part share it
};

// Decodes everything but the service, its version and the times.
// INVALID_ARGUMENT says which member, what stands there and what was expected. `held` grows by what
// is made of the body beside it, and while a long one is parsed the parser's memory is taken from
// the same budget: RESOURCE_EXHAUSTED beyond it.
// Safe to call from any thread; O(body), without copying the binary part.
absl::StatusOr<InferCall> decode_json_infer(const InferBody& body, const SharedMemory& regions,
                                            HeldBytes& held);

// A body that is nothing but the one input of the model (json_length 0): a free
// dimension follows from its size, and a BYTES input is one element, which is copied: `held` grows.
absl::StatusOr<InferCall> decode_raw_infer(const InferBody& body, const engine::Variant& variant,
                                           HeldBytes& held);

}  // namespace fermata::serve
