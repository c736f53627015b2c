#include "engine/trial/made_up.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/random.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

template <class T>
void put(T value, std::vector<std::byte>& bytes) {
  const auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

// Neighbouring items have different magnitudes, since what is scaled by the largest number of a
// batch shows in the small ones.
int exponent_of(uint32_t row, MadeUp kind) {
  constexpr std::array<int, 4> kExponents = {0, 1, -1, 0};
  return kind == MadeUp::kVaried ? kExponents[row % kExponents.size()] : 0;
}

// A binary16 from 1/8 on, so without its conversion.
uint16_t half(uint32_t row, MadeUp kind, bool negative, Random& random) {
  const auto exponent = static_cast<uint16_t>(12 + random.below(3) + exponent_of(row, kind));
  return static_cast<uint16_t>((negative ? 0x8000U : 0U) | exponent << 10 | random.below(1024));
}

void put_element(DataType type, uint32_t row, MadeUp kind, int64_t whole, Random& random,
                 std::vector<std::byte>& bytes) {
  const bool negative = kind == MadeUp::kVaried && row % 2 == 1 && random.below(2) == 1;
  const double number = std::ldexp(random.uniform(), exponent_of(row, kind)) * (negative ? -1 : 1);
  switch (type) {
    case DataType::kFp64:
      return put(number, bytes);
    case DataType::kFp32:
      return put(static_cast<float>(number), bytes);
    case DataType::kBf16:
      return put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16),
                 bytes);
    case DataType::kFp16:
      return put(half(row, kind, negative, random), bytes);
    case DataType::kBytes:
      put(uint32_t{1}, bytes);
      return put(static_cast<char>('0' + whole), bytes);
    default:
      for (size_t b = 0; b < element_size(type); ++b) {
        bytes.push_back(static_cast<std::byte>(b == 0 ? whole : 0));
      }
  }
}

void put_item(const TensorSpec& spec, const Shape& item, uint64_t input, uint32_t row, MadeUp kind,
              std::vector<std::byte>& bytes) {
  Random random(row, input);
  const uint64_t count = element_count(item);
  for (uint64_t e = 0; e < count; ++e) {
    // Also items of one element differ from their neighbours.
    int64_t whole = e == 0 ? row % 2 : static_cast<int64_t>(random.below(2));
    if (kind == MadeUp::kLikely && spec.datatype != DataType::kBool) ++whole;
    put_element(spec.datatype, row, kind, whole, random, bytes);
  }
}

}  // namespace

const Shape& item_shape(const TensorSpec& spec, const Shapes& shapes) {
  const auto it = shapes.find(spec.name);
  return it == shapes.end() ? spec.dims : it->second;
}

double input_bytes(const Variant& variant, const Shapes& shapes, uint32_t items) {
  double sum = 0;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    double bytes = items * static_cast<double>(zero_size(spec.datatype));
    for (int64_t dim : item_shape(spec, shapes)) bytes *= static_cast<double>(dim);
    sum += bytes;
  }
  return sum;
}

Shapes item_shapes(const Variant& variant, const Shapes& given, int64_t free_dimension) {
  Shapes shapes;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    const bool free = std::find(spec.dims.begin(), spec.dims.end(), -1) != spec.dims.end();
    if (!free && !spec.any_rank) continue;
    Shape& shape = shapes[spec.name] = spec.any_rank ? Shape{-1} : spec.dims;
    std::replace(shape.begin(), shape.end(), int64_t{-1}, free_dimension);
    for (const auto& warmup : variant.config.model_warmup()) {
      const auto it = warmup.inputs().find(spec.name);
      if (it != warmup.inputs().end() && it->second.dims_size() > 0) {
        shape.assign(it->second.dims().begin(), it->second.dims().end());
      }
    }
    if (const auto it = given.find(spec.name); it != given.end()) shape = it->second;
  }
  return shapes;
}

absl::Status check_shapes(const Variant& variant, const Shapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    const TensorSpec* spec = variant.signature.input(name);
    if (spec == nullptr) return invalid("a shape is given for '{}', which is no input", name);
    if (spec->any_rank) continue;
    const bool fits = std::equal(
        shape.begin(), shape.end(), spec->dims.begin(), spec->dims.end(),
        [](int64_t has, int64_t want) { return has >= 1 && (want == -1 || has == want); });
    if (!fits) {
      return invalid("the shape of input '{}' is {}, expected {} without free dimensions", name,
                     to_string(shape), to_string(spec->dims));
    }
  }
  return absl::OkStatus();
}

std::vector<Tensor> made_up_inputs(const Variant& variant, const Shapes& shapes, MadeUp kind,
                                   absl::Span<const uint32_t> rows) {
  std::vector<Tensor> inputs;
  const auto items = variant.signature.batches ? static_cast<uint32_t>(rows.size()) : 0;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    const Shape& item = item_shape(spec, shapes);
    inputs.push_back(zeros(spec, item, items));
    if (kind == MadeUp::kZeros) continue;
    std::vector<std::byte> bytes;
    bytes.reserve(inputs.back().data.bytes.size());
    for (const uint32_t row : rows) put_item(spec, item, inputs.size(), row, kind, bytes);
    inputs.back().data = payload_of(std::move(bytes));
  }
  return inputs;
}

}  // namespace fermata::engine
