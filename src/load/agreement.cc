#include "load/agreement.h"

#include <cstring>
#include <string_view>

namespace fermata::load {
namespace {

template <class T>
T element(const Payload& data, size_t index) {
  T value;
  std::memcpy(&value, data.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
std::optional<int64_t> first(const Payload& data) {
  if (data.bytes.size() < sizeof(T)) return std::nullopt;
  return static_cast<int64_t>(element<T>(data, 0));
}

// The index of the largest element; the first of equal ones.
template <class T>
std::optional<int64_t> argmax(const Payload& data) {
  const size_t count = data.bytes.size() / sizeof(T);
  if (count == 0) return std::nullopt;
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    if (element<T>(data, i) > element<T>(data, best)) best = i;
  }
  return static_cast<int64_t>(best);
}

std::optional<std::string_view> text(const Payload& data) {
  const std::optional<int64_t> length = first<uint32_t>(data);
  if (!length || data.bytes.size() - sizeof(uint32_t) < static_cast<size_t>(*length)) {
    return std::nullopt;
  }
  return std::string_view(reinterpret_cast<const char*>(data.bytes.data()) + sizeof(uint32_t),
                          static_cast<size_t>(*length));
}

std::optional<int64_t> whole(const Tensor& output) {
  switch (output.datatype) {
    case DataType::kFp32:
      return argmax<float>(output.data);
    case DataType::kFp64:
      return argmax<double>(output.data);
    case DataType::kBool:
    case DataType::kUint8:
      return first<uint8_t>(output.data);
    case DataType::kUint16:
      return first<uint16_t>(output.data);
    case DataType::kUint32:
      return first<uint32_t>(output.data);
    case DataType::kUint64:
      return first<uint64_t>(output.data);
    case DataType::kInt8:
      return first<int8_t>(output.data);
    case DataType::kInt16:
      return first<int16_t>(output.data);
    case DataType::kInt32:
      return first<int32_t>(output.data);
    case DataType::kInt64:
      return first<int64_t>(output.data);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<bool> agrees(const Label& label, const std::vector<Tensor>& outputs) {
  if (outputs.empty()) return std::nullopt;
  if (const auto* expected = std::get_if<std::string>(&label)) {
    if (outputs[0].datatype != DataType::kBytes) return std::nullopt;
    const auto said = text(outputs[0].data);
    if (!said) return std::nullopt;
    return *said == *expected;
  }
  const auto said = whole(outputs[0]);
  if (!said) return std::nullopt;
  return *said == std::get<int64_t>(label);
}

}  // namespace fermata::load
