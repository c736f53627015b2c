#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "serve/net/compression.h"

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
// The same of a message that is not.
absl::Status read_plain_message(grpc::ByteBuffer& bytes, size_t limit, HeldBytes& held,
                                google::protobuf::Message& message);

// The same a little at a time, for a message that may take long.
class PackedMessage {
 public:
  // Empties `bytes`, which is_packed(). RESOURCE_EXHAUSTED where `passing`, which holds them and
  // what they unpack to as long as this is there, cannot grow.
  static absl::StatusOr<std::unique_ptr<PackedMessage>> take(grpc::ByteBuffer& bytes, size_t limit,
                                                             HeldBytes passing);
  // Unpacking::step() of it.
  absl::StatusOr<bool> step();
  // Once it is whole; `held` as for read_message().
  absl::Status parse(HeldBytes& held, google::protobuf::Message& message);
  size_t size() const { return unpacking_ ? unpacking_->size() : 0; }  // of what is unpacked

 private:
  PackedMessage(std::string packed, size_t limit, HeldBytes held);

  HeldBytes held_;
  const std::string packed_;
  const size_t limit_;
  std::optional<Unpacking> unpacking_;  // once it is its turn: it holds kilobytes
};

// RESOURCE_EXHAUSTED where `held` cannot grow by the message.
absl::Status write_message(const google::protobuf::Message& message, HeldBytes& held,
                           grpc::ByteBuffer& bytes);

}  // namespace fermata::serve
