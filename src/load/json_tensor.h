#pragma once

#include <string>

#include "base/document.h"
#include "model/tensor.h"

namespace fermata::load {

// A payload that owns its bytes.
Payload own(std::string bytes);

// The protocol's JSON form of tensor elements, flat or nested, appended to `out`
// in the binary form. What does not fit the datatype is recorded as the
// reader's error. FP16 and BF16 have no JSON form. Returns how many there were.
int64_t append_elements(Reader data, DataType datatype, std::string& out);

DataType read_datatype(Reader name);
Shape read_shape(Reader shape);

// {"name": ..., "shape": [...], "datatype": "FP32", "data": [...]}
Tensor read_tensor(Reader tensor);

// Elements of a shape; at most kMaxElements, more counts as kMaxElements + 1.
inline constexpr int64_t kMaxElements = int64_t{1} << 31;
int64_t element_count(const Shape& shape);

}  // namespace fermata::load
