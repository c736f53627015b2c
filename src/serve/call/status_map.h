#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace fermata::serve {

// The status line of an error over HTTP; docs/protocol.md has the table. 499 is
// for a client that went away and so is never seen by it.
uint16_t http_status(absl::StatusCode code);

// The two ends of a text that is too long for a message, with no character of UTF-8 in part.
std::string shortened(std::string_view text);

// What a client reads, which begins with the words that clients of the protocol look for. Errors
// repeat what a client sent: of longer ones the middle is left out.
constexpr size_t kLongestMessage = 2048;
std::string client_message(const absl::Status& status);

// The same code, but INVALID_ARGUMENT for OUT_OF_RANGE, and client_message().
grpc::Status grpc_status(const absl::Status& status);

}  // namespace fermata::serve
