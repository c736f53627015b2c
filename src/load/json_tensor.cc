#include "load/json_tensor.h"

#include <array>
#include <cfloat>
#include <cstring>
#include <limits>
#include <utility>

#include "base/status.h"

namespace fermata::load {
namespace {

template <class T>
void append(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
void append_integer(Reader element, std::string& out) {
  constexpr int64_t kHigh = std::is_same_v<T, uint64_t>
                                ? std::numeric_limits<int64_t>::max()
                                : static_cast<int64_t>(std::numeric_limits<T>::max());
  append(
      static_cast<T>(element.integer(static_cast<int64_t>(std::numeric_limits<T>::min()), kHigh)),
      out);
}

void append_bytes(Reader element, std::string& out) {
  const std::string text = element.string();
  append(static_cast<uint32_t>(text.size()), out);
  out += text;
}

void append_bool(Reader element, std::string& out) {
  const bool value = element.is_number() ? element.integer(0, 1) == 1 : element.boolean();
  append(static_cast<uint8_t>(value), out);
}

void append_element(Reader element, DataType datatype, std::string& out) {
  switch (datatype) {
    case DataType::kBool:
      return append_bool(element, out);
    case DataType::kUint8:
      return append_integer<uint8_t>(element, out);
    case DataType::kUint16:
      return append_integer<uint16_t>(element, out);
    case DataType::kUint32:
      return append_integer<uint32_t>(element, out);
    case DataType::kUint64:
      return append_integer<uint64_t>(element, out);
    case DataType::kInt8:
      return append_integer<int8_t>(element, out);
    case DataType::kInt16:
      return append_integer<int16_t>(element, out);
    case DataType::kInt32:
      return append_integer<int32_t>(element, out);
    case DataType::kInt64:
      return append_integer<int64_t>(element, out);
    case DataType::kFp32:
      return append(static_cast<float>(element.between(-FLT_MAX, FLT_MAX)), out);
    case DataType::kFp64:
      return append(element.number(), out);
    case DataType::kBytes:
      return append_bytes(element, out);
    case DataType::kFp16:
    case DataType::kBf16:
      return element.fail("a datatype that JSON can hold, such as FP32");
  }
}

}  // namespace

Payload own(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {{reinterpret_cast<const std::byte*>(owner->data()), owner->size()}, owner};
}

int64_t append_elements(Reader data, DataType datatype, std::string& out) {
  int64_t count = 0;
  for (const Reader& element : data.list()) {
    if (data.failed()) break;
    if (element.is_list()) {
      count += append_elements(element, datatype, out);
    } else {
      append_element(element, datatype, out);
      ++count;
    }
  }
  return count;
}

DataType read_datatype(Reader name) {
  const std::string text = name.string();
  const auto datatype = parse_datatype(text);
  if (!datatype) name.fail("a datatype of the protocol, such as FP32");
  return datatype.value_or(DataType::kFp32);
}

Shape read_shape(Reader shape) {
  Shape dimensions;
  for (const Reader& d : shape.list()) {
    dimensions.push_back(d.integer(0, kMaxElements));
  }
  if (element_count(dimensions) > kMaxElements) shape.fail("at most 2^31 elements");
  return dimensions;
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t d : shape) {
    if (d == 0) return 0;
    count = count > kMaxElements / d ? kMaxElements + 1 : count * d;
  }
  return count;
}

Tensor read_tensor(Reader tensor) {
  ObjectReader fields = tensor.object();
  Tensor result;
  result.name = fields["name"].string();
  result.shape = read_shape(fields["shape"]);
  result.datatype = read_datatype(fields["datatype"]);
  const Reader data = fields["data"];
  std::string bytes;
  const int64_t expected = element_count(result.shape);
  if (append_elements(data, result.datatype, bytes) != expected) {
    data.fail(fmt::format("{} elements, as the shape says", expected));
  }
  result.data = own(std::move(bytes));
  return result;
}

}  // namespace fermata::load
