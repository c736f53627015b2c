#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "base/byte_budget.h"

namespace google::protobuf {
class Message;
}
namespace grpc {
class ByteBuffer;
}

namespace fermata::serve {

// Parses a message as it came and empties `bytes`. gRPC is told not to decompress: a message that
// begins as gzip or zlib do, which no request does, is decompressed here, to at most `limit` bytes.
// Before anything is parsed `held` grows by what its parts will take (message_weight.h).
// INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
absl::Status read_message(grpc::ByteBuffer& bytes, size_t limit, HeldBytes& held,
                          google::protobuf::Message& message);

// Whether read_message() would decompress it.
bool is_packed(grpc::ByteBuffer& bytes);

// RESOURCE_EXHAUSTED where `held` cannot grow by the message.
absl::Status write_message(const google::protobuf::Message& message, HeldBytes& held,
                           grpc::ByteBuffer& bytes);

}  // namespace fermata::serve
