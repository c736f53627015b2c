#include "model/tensor_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/status.h"
#include "model/signature.h"

namespace fermata {
namespace {

// IEEE 754 binary16: a sign, five bits of exponent, ten of significand.
struct Half {
  uint16_t bits;
  explicit operator float() const {
    const int exponent = (bits >> 10) & 31;
    const float significand = static_cast<float>(bits & 1023) / 1024;
    const float sign = (bits >> 15) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) {
      return significand == 0 ? sign * std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
    }
    return sign * (exponent == 0 ? std::ldexp(significand, -14)
                                 : std::ldexp(1 + significand, exponent - 15));
  }
};

// The upper half of a binary32.
struct Brain {
  uint16_t bits;
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

template <class From, class To>
std::vector<To> converted(const Tensor& tensor) {
  std::vector<To> values(tensor.data.bytes.size() / sizeof(From));
  for (size_t i = 0; i < values.size(); ++i) {
    From value;  // the payload need not be aligned
    std::memcpy(&value, tensor.data.bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<To>(value);
  }
  return values;
}

absl::Status check_size(const Tensor& tensor) {
  const uint64_t expected = element_count(tensor.shape) * element_size(tensor.datatype);
  if (tensor.data.bytes.size() == expected) return absl::OkStatus();
  return invalid("tensor '{}' has {} bytes, expected {}", tensor.name, tensor.data.bytes.size(),
                 expected);
}

absl::Status unfit(const Tensor& tensor, std::string_view expected) {
  return invalid("tensor '{}' has datatype {}, expected {}", tensor.name, name(tensor.datatype),
                 expected);
}

template <class To>
absl::StatusOr<std::vector<To>> whole_numbers(const Tensor& tensor) {
  switch (tensor.datatype) {
    case DataType::kBool:
    case DataType::kUint8:
      return converted<uint8_t, To>(tensor);
    case DataType::kUint16:
      return converted<uint16_t, To>(tensor);
    case DataType::kUint32:
      return converted<uint32_t, To>(tensor);
    case DataType::kUint64:
      return converted<uint64_t, To>(tensor);
    case DataType::kInt8:
      return converted<int8_t, To>(tensor);
    case DataType::kInt16:
      return converted<int16_t, To>(tensor);
    case DataType::kInt32:
      return converted<int32_t, To>(tensor);
    case DataType::kInt64:
      return converted<int64_t, To>(tensor);
    default:
      return unfit(tensor, "whole numbers");
  }
}

}  // namespace

absl::StatusOr<std::vector<float>> as_floats(const Tensor& tensor) {
  if (tensor.datatype == DataType::kBytes) return unfit(tensor, "numbers");
  RETURN_IF_ERROR(check_size(tensor));
  switch (tensor.datatype) {
    case DataType::kFp16:
      return converted<Half, float>(tensor);
    case DataType::kBf16:
      return converted<Brain, float>(tensor);
    case DataType::kFp32:
      return converted<float, float>(tensor);
    case DataType::kFp64:
      return converted<double, float>(tensor);
    default:
      return whole_numbers<float>(tensor);
  }
}

absl::StatusOr<std::vector<int64_t>> as_integers(const Tensor& tensor) {
  if (tensor.datatype != DataType::kBytes) RETURN_IF_ERROR(check_size(tensor));
  ASSIGN_OR_RETURN(std::vector<int64_t> values, whole_numbers<int64_t>(tensor));
  const bool wrapped = tensor.datatype == DataType::kUint64 &&
                       std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; });
  if (wrapped) return invalid("tensor '{}' has a value above 2^63 - 1", tensor.name);
  return values;
}

std::optional<absl::Span<const std::byte>> next_string(absl::Span<const std::byte> bytes,
                                                       size_t& at) {
  uint32_t length = 0;
  if (bytes.size() - at < sizeof(length)) return std::nullopt;
  std::memcpy(&length, bytes.data() + at, sizeof(length));
  if (bytes.size() - at - sizeof(length) < length) return std::nullopt;
  const auto element = bytes.subspan(at + sizeof(length), length);
  at += sizeof(length) + length;
  return element;
}

uint64_t payload_bytes(absl::Span<const Tensor> tensors) {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.data.bytes.size();
  return bytes;
}

}  // namespace fermata
