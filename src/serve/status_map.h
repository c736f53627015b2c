#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace fermata::serve {

// The status line of an error over HTTP; docs/protocol.md has the table. 499 is
// for a client that went away and so is never seen by it.
uint16_t http_status(absl::StatusCode code);

// The same code and message.
grpc::Status grpc_status(const absl::Status& status);

}  // namespace fermata::serve
