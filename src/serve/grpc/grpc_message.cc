#include "serve/grpc/grpc_message.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/net/compression.h"

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

absl::Status no_memory() {
  return error(absl::StatusCode::kResourceExhausted,
               "no memory is left for the message; try again later");
}

}  // namespace

bool is_packed(grpc::ByteBuffer& bytes) {
  grpc::Slice whole;  // of most, without a list of pieces
  if (bytes.TrySingleSlice(&whole).ok()) return encoding_of(view(whole)).has_value();
  std::vector<grpc::Slice> slices;
  return bytes.Dump(&slices).ok() && !slices.empty() && encoding_of(view(slices.front()));
}

absl::StatusOr<std::shared_ptr<inference::ModelInferRequest>> read_infer_message(
    grpc::ByteBuffer& bytes, size_t limit, HeldBytes& held) {
  if (!held.grow_by(bytes.Length())) return no_memory();
  auto message = std::make_shared<inference::ModelInferRequest>();
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok() || slices.empty()) return message;
  bool parsed = false;
  if (const auto encoding = encoding_of(view(slices.front()))) {
    std::string packed;
    for (const grpc::Slice& slice : slices) packed += view(slice);
    slices.clear();
    bytes.Clear();
    ASSIGN_OR_RETURN(
        const std::string plain,
        decompress(packed, *encoding, limit, [&held](size_t more) { return held.grow_by(more); }));
    parsed = message->ParseFromString(plain);
  } else {
    slices.clear();
    parsed = grpc::GenericDeserialize<grpc::ProtoBufferReader, inference::ModelInferRequest>(
                 &bytes, message.get())
                 .ok();
  }
  if (!parsed) return invalid("the message is not a ModelInferRequest");
  return message;
}

absl::Status write_message(const google::protobuf::Message& message, HeldBytes& held,
                           grpc::ByteBuffer& bytes) {
  if (!held.grow_by(message.ByteSizeLong())) return no_memory();
  bool own = false;
  const grpc::Status written =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes,
                                                                                 &own);
  return written.ok() ? absl::OkStatus() : internal("{}", written.error_message());
}

}  // namespace fermata::serve
