#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/datatype.h"
#include "model/tensor.h"

namespace fermata {

// What a model expects or gives under one name. `dims` are those of one item
// (without the batch dimension) for a model that batches, else the whole shape;
// -1: any size.
struct TensorSpec {
  std::string name;
  DataType datatype = DataType::kFp32;
  Shape dims;
  Shape model_dims;  // what the model file has, where the configuration reshapes; else dims
  bool optional = false;
  bool any_rank = false;  // any shape fits; of a model that batches, any behind the items
  // Of free dimensions that other inputs have too, names: those of one name are equal. Empty, or
  // one a dimension, "" where it has none.
  std::vector<std::string> symbols;

  // `item` matches dims; the same with the free dimensions of model_dims filled in
  // their order.
  Shape reshaped(const Shape& item) const;
};

// A model's face: what a request must look like.
struct Signature {
  bool batches = false;    // shapes on the wire lead with a count of items
  uint32_t max_batch = 1;  // items in one batch; 1 where it does not batch
  std::vector<TensorSpec> inputs, outputs;

  const TensorSpec* input(std::string_view name) const;
  const TensorSpec* output(std::string_view name) const;
  // As metadata shows it: with the leading -1 of a model that batches.
  Shape wire_shape(const TensorSpec& spec) const;
  // No dimension of any input is free: one shape per item.
  bool fixed_shape() const;
  bool has_symbols() const;  // some inputs have free dimensions that must be equal
};

// What a zero takes on the wire: of BYTES the four of an empty string's length.
size_t zero_size(DataType type);
// Zeros of one item, or of `items` where that is above 0, which then lead the shape.
Tensor zeros(const TensorSpec& spec, Shape item, uint32_t items);

// The elements of a shape; 0 where one is negative or the product overflows.
uint64_t element_count(const Shape& shape);
std::string to_string(const Shape& shape);  // "[1,3,-1]"

}  // namespace fermata
