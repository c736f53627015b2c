#include "model/signature.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace fermata {
namespace {

const TensorSpec* named(const std::vector<TensorSpec>& specs, std::string_view name) {
  auto it = std::find_if(specs.begin(), specs.end(),
                         [name](const TensorSpec& spec) { return spec.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

}  // namespace

Shape TensorSpec::reshaped(const Shape& item) const {
  if (model_dims == dims) return item;
  Shape result = model_dims;
  size_t at = 0;
  for (int64_t& dim : result) {
    if (dim != -1) continue;
    while (at < dims.size() && dims[at] != -1) ++at;
    dim = at < item.size() ? item[at++] : 1;
  }
  return result;
}

const TensorSpec* Signature::input(std::string_view name) const { return named(inputs, name); }
const TensorSpec* Signature::output(std::string_view name) const { return named(outputs, name); }

Shape Signature::wire_shape(const TensorSpec& spec) const {
  Shape shape = spec.any_rank ? Shape{-1} : spec.dims;
  if (batches) shape.insert(shape.begin(), -1);
  return shape;
}

bool Signature::fixed_shape() const {
  return std::all_of(inputs.begin(), inputs.end(), [](const TensorSpec& spec) {
    return !spec.optional && !spec.any_rank &&
           std::find(spec.dims.begin(), spec.dims.end(), -1) == spec.dims.end();
  });
}

bool Signature::has_symbols() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const TensorSpec& spec) { return !spec.symbols.empty(); });
}

uint64_t element_count(const Shape& shape) {
  uint64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count)) return 0;
  }
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

size_t zero_size(DataType type) {
  return type == DataType::kBytes ? sizeof(uint32_t) : element_size(type);
}

Tensor zeros(const TensorSpec& spec, Shape item, uint32_t items) {
  Tensor tensor{.name = spec.name, .datatype = spec.datatype, .shape = std::move(item)};
  if (items > 0) tensor.shape.insert(tensor.shape.begin(), items);
  tensor.data =
      payload_of(std::vector<std::byte>(element_count(tensor.shape) * zero_size(spec.datatype)));
  return tensor;
}

}  // namespace fermata
