#include "engine/onnx/onnx_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>
#include <unistd.h>

#include "absl/functional/function_ref.h"

namespace fermata::engine {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The numbers of fields in onnx.proto.
constexpr int kModelGraph = 7, kGraphInput = 11, kGraphOutput = 12, kValueName = 1, kValueType = 2,
              kTypeTensor = 1, kTensorShape = 2;

// Calls `visit` for every field that is a message or text, within the message that the stream is
// in; what it does not read is skipped. False where the bytes are no message.
bool read_fields(CodedInputStream& in, absl::FunctionRef<void(int field)> visit) {
  while (const uint32_t tag = in.ReadTag()) {
    uint32_t length = 0;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
    } else {
      if (!in.ReadVarint32(&length)) return false;
      const auto limit = in.PushLimit(static_cast<int>(length));
      visit(WireFormatLite::GetTagFieldNumber(tag));
      if (!in.Skip(in.BytesUntilLimit())) return false;
      in.PopLimit(limit);
    }
  }
  return true;
}

void read_value(CodedInputStream& in, std::set<std::string>& without) {
  std::string name;
  bool tensor = false, shape = false;
  read_fields(in, [&](int field) {
    if (field == kValueName) in.ReadString(&name, in.BytesUntilLimit());
    if (field != kValueType) return;
    read_fields(in, [&](int of_type) {
      if (of_type != kTypeTensor) return;
      tensor = true;
      read_fields(in, [&](int of_tensor) { shape = shape || of_tensor == kTensorShape; });
    });
  });
  if (tensor && !shape) without.insert(std::move(name));
}

}  // namespace

std::set<std::string> tensors_without_shape(const std::string& file) {
  std::set<std::string> without;
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return without;
  google::protobuf::io::FileInputStream bytes(descriptor);
  bytes.SetCloseOnDelete(true);
  CodedInputStream in(&bytes);
  read_fields(in, [&](int field) {
    if (field != kModelGraph) return;
    read_fields(in, [&](int of_graph) {
      if (of_graph == kGraphInput || of_graph == kGraphOutput) read_value(in, without);
    });
  });
  return without;
}

}  // namespace fermata::engine
