#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "grpc_service.pb.h"

namespace grpc {
class ByteBuffer;
}

namespace fermata::serve {

// Parses a message as it came and empties `bytes`. gRPC is told not to decompress: a message that
// begins as gzip or zlib do, which no infer request does, is decompressed here, to at most `limit`
// bytes. `held` grows by what is taken. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
absl::StatusOr<std::shared_ptr<inference::ModelInferRequest>> read_infer_message(
    grpc::ByteBuffer& bytes, size_t limit, HeldBytes& held);

// Whether read_infer_message() would decompress it.
bool is_packed(grpc::ByteBuffer& bytes);

// RESOURCE_EXHAUSTED where `held` cannot grow by the message.
absl::Status write_message(const google::protobuf::Message& message, HeldBytes& held,
                           grpc::ByteBuffer& bytes);

}  // namespace fermata::serve
