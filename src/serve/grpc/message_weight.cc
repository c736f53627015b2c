#include "serve/grpc/message_weight.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "serve/call/memory.h"

namespace fermata::serve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// Bytes, of a part and of what a request has for it beside its text.
constexpr size_t kSubmessage = 256, kText = 64, kNumber = 32;
constexpr size_t kUnknownByte = 32;         // of groups, which we have none of
constexpr size_t kHeldAtATime = 64 * 1024;  // held at a time
constexpr int kDeepest = 32;
// Tensors, parameters and the like of one message: to weigh more takes long, where gRPC's others
// wait.
constexpr size_t kMostParts = 100'000;
// Of a name, a parameter and the like: it is looked at byte by byte where gRPC's others wait.
constexpr int kLongestText = 2 << 20;

size_t size_in_list(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return 4;
    default:
      return 8;
  }
}

bool has_fixed_size(const FieldDescriptor& field) {
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  return WireFormatLite::WireTypeForFieldType(type) != WireFormatLite::WIRETYPE_VARINT;
}

class Scale {
 public:
  Scale(google::protobuf::io::ZeroCopyInputStream& wire, HeldBytes& held)
      : in_(&wire), held_(held) {}

  // False: it is damaged.
  bool weigh(const Descriptor& type, int depth = 0) {
    if (depth == kDeepest) return false;
    while (const uint32_t tag = in_.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      if (number == 0 || !weigh(tag, type.FindFieldByNumber(number), depth)) return false;
    }
    return in_.ConsumedEntireMessage();
  }
  // Once all is weighed; false: it is beyond what may be held.
  bool holds() {
    hold();
    return !exhausted_;
  }
  uint64_t weight() const { return weight_; }
  bool has_too_many_parts() const { return parts_ > kMostParts; }
  bool has_long_text() const { return has_long_text_; }

 private:
  bool weigh(uint32_t tag, const FieldDescriptor* field, int depth) {
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return weigh_length_delimited(field, depth);
      case WireFormatLite::WIRETYPE_START_GROUP: {
        const int before = in_.CurrentPosition();
        return WireFormatLite::SkipField(&in_, tag) &&
               add(kUnknownByte * static_cast<size_t>(in_.CurrentPosition() - before));
      }
      default:
        return WireFormatLite::SkipField(&in_, tag) && add(kNumber);
    }
  }

  bool weigh_length_delimited(const FieldDescriptor* field, int depth) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) return false;
    const auto kind = field == nullptr ? FieldDescriptor::CPPTYPE_STRING : field->cpp_type();
    const bool is_message = kind == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool is_number = kind != FieldDescriptor::CPPTYPE_STRING && !is_message;
    if (is_number && field->is_repeated()) return weigh_list(*field, length);
    // A text, or what is kept as one: it is unknown, or stands where one number is expected.
    const bool is_text = field != nullptr && field->type() == FieldDescriptor::TYPE_STRING;
    if (is_text && length > kLongestText) {
      has_long_text_ = true;
      return false;
    }
    if (!is_message) return add(kText + static_cast<size_t>(length)) && in_.Skip(length);
    if (++parts_ > kMostParts || !add(kSubmessage)) return false;
    const auto limit = in_.PushLimit(length);
    const bool whole = in_.BytesUntilLimit() == length && weigh(*field->message_type(), depth + 1);
    in_.PopLimit(limit);
    return whole;
  }

  bool weigh_list(const FieldDescriptor& field, int length) {
    if (has_fixed_size(field)) return add(static_cast<size_t>(length)) && in_.Skip(length);
    const size_t each = 2 * size_in_list(field);  // it grows by doubling
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_.GetDirectBufferPointer(&data, &size)) return false;
      size = std::min(size, length);
      const auto* const bytes = static_cast<const signed char*>(data);
      const auto ends = std::count_if(bytes, bytes + size, [](signed char c) { return c >= 0; });
      if (!add(each * static_cast<size_t>(ends)) || !in_.Skip(size)) return false;
      length -= size;
    }
    return true;
  }

  // Goes on where nothing more can be held, to tell how much it would be.
  bool add(size_t bytes) {
    weight_ += bytes;
    pending_ += bytes;
    if (pending_ >= kHeldAtATime) hold();
    return true;
  }
  void hold() {
    exhausted_ = exhausted_ || !held_.grow_by(pending_);
    pending_ = 0;
  }

  google::protobuf::io::CodedInputStream in_;
  HeldBytes& held_;
  uint64_t weight_ = 0;
  size_t parts_ = 0;
  size_t pending_ = 0;
  bool exhausted_ = false, has_long_text_ = false;
};

}  // namespace

absl::Status hold_parsed(google::protobuf::io::ZeroCopyInputStream& wire, const Descriptor& type,
                         HeldBytes& held) {
  const uint64_t before = held.bytes();
  Scale scale(wire, held);
  if (!scale.weigh(type)) {
    if (scale.has_long_text()) {
      return invalid("the message has a text of more than {} bytes, such as a name or a parameter",
                     kLongestText);
    }
    if (!scale.has_too_many_parts()) return invalid("the message is not a {}", type.name());
    return invalid("the message has more than {} parts (tensors, parameters and the like)",
                   kMostParts);
  }
  if (scale.holds()) return absl::OkStatus();
  return no_memory_for("the message's parts", before + scale.weight(), held,
                       "send tensors in raw_input_contents, or less in one request");
}

}  // namespace fermata::serve
