#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/status.h"
#include "serve/json/json_reply.h"
#include "serve/json/json_text.h"

namespace fermata::serve {
namespace {

absl::Status no_json_form(const Tensor& tensor, std::string_view what) {
  return invalid("output {} holds {}, which has no JSON form: ask for binary_data", tensor.name,
                 what);
}

template <class T>
absl::Status append_numbers(const Tensor& tensor, std::string& out) {
  const auto bytes = tensor.data.bytes;
  auto to = std::back_inserter(out);
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return no_json_form(tensor, "NaN or an infinity");
    }
    if (at > 0) out.push_back(',');
    fmt::format_to(to, "{}", +value);
  }
  return absl::OkStatus();
}

absl::Status append_booleans(const Tensor& tensor, std::string& out) {
  bool first = true;
  for (const std::byte value : tensor.data.bytes) {
    if (!std::exchange(first, false)) out.push_back(',');
    out += value == std::byte{0} ? "false" : "true";
  }
  return absl::OkStatus();
}

absl::Status append_strings(const Tensor& tensor, std::string& out) {
  const auto* from = reinterpret_cast<const char*>(tensor.data.bytes.data());
  size_t left = tensor.data.bytes.size();
  for (bool first = true; left > 0;) {
    uint32_t size = 0;
    if (left < sizeof(size)) return internal("output {} ends in half a length", tensor.name);
    std::memcpy(&size, from, sizeof(size));
    from += sizeof(size);
    left -= sizeof(size);
    if (size > left) return internal("output {} has an element beyond its end", tensor.name);
    if (!simdjson::validate_utf8(from, size))
      return no_json_form(tensor, "bytes that are no UTF-8");
    if (!std::exchange(first, false)) out.push_back(',');
    append_json(std::string_view(from, size), out);
    from += size;
    left -= size;
  }
  return absl::OkStatus();
}

absl::Status append_elements(const Tensor& tensor, std::string& out) {
  switch (tensor.datatype) {
    case DataType::kBool:
      return append_booleans(tensor, out);
    case DataType::kUint8:
      return append_numbers<uint8_t>(tensor, out);
    case DataType::kUint16:
      return append_numbers<uint16_t>(tensor, out);
    case DataType::kUint32:
      return append_numbers<uint32_t>(tensor, out);
    case DataType::kUint64:
      return append_numbers<uint64_t>(tensor, out);
    case DataType::kInt8:
      return append_numbers<int8_t>(tensor, out);
    case DataType::kInt16:
      return append_numbers<int16_t>(tensor, out);
    case DataType::kInt32:
      return append_numbers<int32_t>(tensor, out);
    case DataType::kInt64:
      return append_numbers<int64_t>(tensor, out);
    case DataType::kFp32:
      return append_numbers<float>(tensor, out);
    case DataType::kFp64:
      return append_numbers<double>(tensor, out);
    case DataType::kBytes:
      return append_strings(tensor, out);
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return no_json_form(tensor, name(tensor.datatype));
}

}  // namespace

absl::Status append_json_data(const Tensor& tensor, std::string& out) {
  out.push_back('[');
  RETURN_IF_ERROR(append_elements(tensor, out));
  out.push_back(']');
  return absl::OkStatus();
}

}  // namespace fermata::serve
