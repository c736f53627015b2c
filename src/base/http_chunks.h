#pragma once

#include <cstddef>

namespace fermata {

// Of a body in chunks (RFC 9112, section 7.1) at least so many bytes are still to come until it has
// ended: the line of the last chunk, and an empty one. Boost.Beast 1.74, which finds the last
// chunk's line in fewer, asserts that they are there when it is called again.
constexpr size_t kShortestChunks = 5;

}  // namespace fermata
