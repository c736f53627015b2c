#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fermata {

// The datatypes of the Open Inference Protocol, in its spelling.
enum class DataType : uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
  kBytes,
};

std::string_view name(DataType type);  // "FP32"
std::optional<DataType> parse_datatype(std::string_view name);
// Bytes of one element; 0 for BYTES, whose elements each carry a uint32 length.
size_t element_size(DataType type);
bool is_floating(DataType type);

}  // namespace fermata
