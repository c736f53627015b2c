#pragma once

#include <cstddef>

#include "engine/request.h"

namespace fermata::serve {

// From so many bytes on, what is read or written byte by byte goes to a background thread.
constexpr size_t kLong = 64 * 1024;

inline bool is_long_reply(const engine::ReplyPart& part) {
  size_t bytes = 0;
  for (const Tensor& tensor : part.outputs) bytes += tensor.data.bytes.size();
  return bytes >= kLong;
}

}  // namespace fermata::serve
