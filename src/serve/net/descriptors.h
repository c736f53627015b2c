#pragma once

#include <cstddef>

namespace fermata::serve {

// How many connections each listener may have.
struct ConnectionLimits {
  size_t http = 0, grpc = 0, metrics = 0;
};

// Raises the process's limit of open descriptors to what the system allows it; what that is.
size_t raise_descriptor_limit();

// `wanted` for HTTP and for gRPC, or fewer, so that together they leave descriptors for models,
// shared memory and files.
ConnectionLimits connection_limits(size_t wanted, size_t descriptors);

}  // namespace fermata::serve
