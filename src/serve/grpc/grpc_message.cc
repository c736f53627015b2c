#include "serve/grpc/grpc_message.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/call/memory.h"
#include "serve/grpc/message_weight.h"

namespace fermata::serve {
namespace {

// By the first two bytes of its stream. A message of ours begins with the tag of a field from 1 to
// 7; these would be field 3 of a kind that does not exist, and field 15.
std::optional<Encoding> encoding_of(std::string_view start) {
  if (start.size() < 2) return std::nullopt;
  const auto first = static_cast<unsigned char>(start[0]);
  const auto second = static_cast<unsigned char>(start[1]);
  if (first == 0x1f && second == 0x8b) return Encoding::kGzip;
  if (first == 0x78 && (first << 8 | second) % 31 == 0) return Encoding::kDeflate;
  return std::nullopt;
}

std::string_view view(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

absl::Status no_memory(uint64_t bytes, const HeldBytes& held) {
  return no_memory_for("the message", held.bytes() + bytes, held, kSmaller);
}

absl::Status no_message(const google::protobuf::Message& expected) {
  return invalid("the message is not a {}", expected.GetDescriptor()->name());
}

}  // namespace

// The pieces of a message end where reads from the socket did: any may have a byte, or none.
bool is_packed(grpc::ByteBuffer& bytes) {
  grpc::Slice whole;  // of most, without a list of pieces
  if (bytes.TrySingleSlice(&whole).ok()) return encoding_of(view(whole)).has_value();
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return false;
  constexpr size_t kTold = 2;  // bytes that encoding_of() looks at
  std::string start;
  for (const grpc::Slice& slice : slices) {
    start += view(slice).substr(0, kTold - start.size());
    if (start.size() == kTold) break;
  }
  return encoding_of(start).has_value();
}

PackedMessage::PackedMessage(std::string packed, size_t limit, HeldBytes held)
    : held_(std::move(held)), packed_(std::move(packed)), limit_(limit) {}

absl::StatusOr<std::unique_ptr<PackedMessage>> PackedMessage::take(grpc::ByteBuffer& bytes,
                                                                   size_t limit,
                                                                   HeldBytes passing) {
  if (!passing.grow_by(bytes.Length())) return no_memory(bytes.Length(), passing);
  std::vector<grpc::Slice> slices;
  std::string packed;
  packed.reserve(bytes.Length());
  if (!bytes.Dump(&slices).ok()) return internal("the message's pieces cannot be listed");
  for (const grpc::Slice& slice : slices) packed += view(slice);
  slices.clear();
  bytes.Clear();
  return std::unique_ptr<PackedMessage>(
      new PackedMessage(std::move(packed), limit, std::move(passing)));
}

absl::StatusOr<bool> PackedMessage::step() {
  if (!unpacking_) unpacking_.emplace(packed_, *encoding_of(packed_), limit_);
  return unpacking_->step([this](size_t more) { return held_.grow_by(more); });
}

absl::Status PackedMessage::parse(HeldBytes& held, google::protobuf::Message& message) {
  const std::string plain = unpacking_->take();
  google::protobuf::io::ArrayInputStream wire(plain.data(), static_cast<int>(plain.size()));
  RETURN_IF_ERROR(hold_parsed(wire, *message.GetDescriptor(), held));
  return message.ParseFromString(plain) ? absl::OkStatus() : no_message(message);
}

absl::Status read_message(grpc::ByteBuffer& bytes, size_t limit, HeldBytes& held,
                          google::protobuf::Message& message) {
  if (bytes.Length() > limit || !is_packed(bytes)) {
    return read_plain_message(bytes, limit, held, message);
  }
  ASSIGN_OR_RETURN(const auto packed, PackedMessage::take(bytes, limit, held.beside()));
  for (bool whole = false; !whole;) {
    ASSIGN_OR_RETURN(whole, packed->step());
  }
  return packed->parse(held, message);
}

absl::Status read_plain_message(grpc::ByteBuffer& bytes, size_t limit, HeldBytes& held,
                                google::protobuf::Message& message) {
  if (bytes.Length() > limit) {
    return invalid("the message has {} bytes, expected at most {}", bytes.Length(), limit);
  }
  if (bytes.Length() == 0) return absl::OkStatus();
  {
    grpc::ProtoBufferReader wire(&bytes);
    if (!wire.status().ok()) return internal("{}", wire.status().error_message());
    RETURN_IF_ERROR(hold_parsed(wire, *message.GetDescriptor(), held));
  }
  const grpc::Status parsed =
      grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::Message>(&bytes,
                                                                                   &message);
  return parsed.ok() ? absl::OkStatus() : no_message(message);
}

absl::Status write_message(const google::protobuf::Message& message, HeldBytes& held,
                           grpc::ByteBuffer& bytes) {
  if (const size_t size = message.ByteSizeLong(); !held.grow_by(size)) {
    return no_memory(size, held);
  }
  bytes.Clear();  // gRPC stops the program where something is in it
  bool own = false;
  const grpc::Status written =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes,
                                                                                 &own);
  return written.ok() ? absl::OkStatus() : internal("{}", written.error_message());
}

}  // namespace fermata::serve
