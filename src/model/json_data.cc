#include "model/json_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "model/signature.h"

namespace fermata {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;

void append(std::string& out, const void* bytes, size_t size) {
  out.append(static_cast<const char*>(bytes), size);
}

template <class T>
bool put_integer(element from, std::string& out) {
  T value;
  if (int64_t i; from.get(i) == simdjson::SUCCESS) {
    if (!std::in_range<T>(i)) return false;
    value = static_cast<T>(i);
  } else if (uint64_t u; from.get(u) == simdjson::SUCCESS && std::in_range<T>(u)) {
    value = static_cast<T>(u);
  } else {
    return false;
  }
  append(out, &value, sizeof(value));
  return true;
}

template <class T>
bool put_real(element from, std::string& out) {
  double wide;
  if (from.get(wide) != simdjson::SUCCESS) return false;
  if (std::abs(wide) > static_cast<double>(std::numeric_limits<T>::max())) return false;
  const T value = static_cast<T>(wide);
  append(out, &value, sizeof(value));
  return true;
}

bool put_bool(element from, std::string& out) {
  bool value;
  if (from.get(value) != simdjson::SUCCESS) {
    int64_t number;
    if (from.get(number) != simdjson::SUCCESS || (number != 0 && number != 1)) return false;
    value = number == 1;
  }
  out.push_back(value ? 1 : 0);
  return true;
}

bool put_bytes(element from, std::string& out) {
  std::string_view text;
  if (from.get(text) != simdjson::SUCCESS || text.size() > UINT32_MAX) return false;
  const auto size = static_cast<uint32_t>(text.size());
  append(out, &size, sizeof(size));
  out.append(text);
  return true;
}

using Put = bool (*)(element, std::string&);

// Null: the datatype has no JSON form.
Put put_for(DataType type) {
  switch (type) {
    case DataType::kBool:
      return put_bool;
    case DataType::kUint8:
      return put_integer<uint8_t>;
    case DataType::kUint16:
      return put_integer<uint16_t>;
    case DataType::kUint32:
      return put_integer<uint32_t>;
    case DataType::kUint64:
      return put_integer<uint64_t>;
    case DataType::kInt8:
      return put_integer<int8_t>;
    case DataType::kInt16:
      return put_integer<int16_t>;
    case DataType::kInt32:
      return put_integer<int32_t>;
    case DataType::kInt64:
      return put_integer<int64_t>;
    case DataType::kFp32:
      return put_real<float>;
    case DataType::kFp64:
      return put_real<double>;
    case DataType::kBytes:
      return put_bytes;
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return nullptr;
}

// Appends all elements in row-major order; false at the first that does not fit.
bool flatten(array from, Put put, std::string& out, uint64_t& count) {
  for (const element child : from) {
    if (child.type() == element_type::ARRAY) {
      if (!flatten(array(child), put, out, count)) return false;
    } else if (put(child, out)) {
      ++count;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<Payload> read_json_data(element data, const Tensor& tensor) {
  const Put put = put_for(tensor.datatype);
  if (put == nullptr) {
    return invalid("tensor {}: {} has no JSON form, expected it in the binary part", tensor.name,
                   name(tensor.datatype));
  }
  array elements;
  if (data.get(elements) != simdjson::SUCCESS) {
    return invalid("tensor {}: data is not a list", tensor.name);
  }
  auto bytes = std::make_shared<std::string>();
  // A list has at most as many elements as places on the parser's tape, however they are nested.
  bytes->reserve(std::min<uint64_t>(element_count(tensor.shape), elements.number_of_slots()) *
                 element_size(tensor.datatype));
  uint64_t count = 0;
  if (!flatten(elements, put, *bytes, count)) {
    return invalid("tensor {}: data[{}] is not of datatype {}", tensor.name, count,
                   name(tensor.datatype));
  }
  if (count != element_count(tensor.shape)) {
    return invalid("tensor {}: data has {} elements, its shape {} holds {}", tensor.name, count,
                   to_string(tensor.shape), element_count(tensor.shape));
  }
  const auto* start = reinterpret_cast<const std::byte*>(bytes->data());
  return Payload{absl::MakeSpan(start, bytes->size()), std::move(bytes)};
}

}  // namespace fermata
