#include "model/datatype.h"

#include <array>

namespace fermata {
namespace {

struct Entry {
  std::string_view name;
  size_t size;
};
// In the order of the enum.
constexpr std::array<Entry, 14> kTypes = {{
    {"BOOL", 1},
    {"UINT8", 1},
    {"UINT16", 2},
    {"UINT32", 4},
    {"UINT64", 8},
    {"INT8", 1},
    {"INT16", 2},
    {"INT32", 4},
    {"INT64", 8},
    {"FP16", 2},
    {"BF16", 2},
    {"FP32", 4},
    {"FP64", 8},
    {"BYTES", 0},
}};

}  // namespace

std::string_view name(DataType type) { return kTypes[static_cast<size_t>(type)].name; }

std::optional<DataType> parse_datatype(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

size_t element_size(DataType type) { return kTypes[static_cast<size_t>(type)].size; }

bool is_floating(DataType type) {
  return type == DataType::kFp16 || type == DataType::kBf16 || type == DataType::kFp32 ||
         type == DataType::kFp64;
}

}  // namespace fermata
