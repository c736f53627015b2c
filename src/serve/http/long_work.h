#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/request.h"
#include "model/tensor_values.h"
#include "serve/call/infer_call.h"

namespace fermata::serve {

// From so many bytes on, what is read or written byte by byte goes to a background thread.
constexpr size_t kLong = 64 * 1024;

inline bool is_long_reply(const engine::ReplyPart& part) {
  return payload_bytes(part.outputs) >= kLong;
}

// Of what has to be copied for it.
inline uint64_t bytes_of(const InferCall& call) {
  uint64_t bytes = 0;
  for (const InferCall::Distant& input : call.distant) bytes += input.place.byte_size.value_or(0);
  return bytes;
}

}  // namespace fermata::serve
