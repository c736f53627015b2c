#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/request.h"
#include "model/tensor_values.h"
#include "serve/call/classification.h"
#include "serve/call/infer_call.h"

namespace fermata::serve {

// From so many bytes on, what is read or written byte by byte goes to a background thread.
constexpr size_t kLong = 64 * 1024;

// Bytes that a reply has, or as many as the classes cost that are made of them.
inline uint64_t work_of(const engine::ReplyPart& part, const ReplyWishes& wishes) {
  constexpr uint64_t kRow = 32;
  uint64_t work = payload_bytes(part.outputs);
  for (const WantedOutput& wanted : wishes.outputs) {
    if (wanted.parameters.classification == 0) continue;
    for (const Tensor& tensor : part.outputs) {
      if (tensor.name != wanted.name) continue;
      work += kRow * std::min(rows_of(tensor, wanted.parameters.classification), kMostRows);
    }
  }
  return work;
}

// Of what has to be copied for it.
inline uint64_t bytes_of(const InferCall& call) {
  uint64_t bytes = 0;
  for (const InferCall::Distant& input : call.distant) bytes += input.place.byte_size.value_or(0);
  return bytes;
}

}  // namespace fermata::serve
