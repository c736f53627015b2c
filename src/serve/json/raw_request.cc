#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "serve/call/memory.h"
#include "serve/json/json_request.h"

namespace fermata::serve {
namespace {

// One BYTES element needs its length before it, so this one is copied.
Payload as_bytes_element(std::string_view bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  auto framed = std::make_shared<std::string>(sizeof(size), '\0');
  std::memcpy(framed->data(), &size, sizeof(size));
  framed->append(bytes);
  const auto* start = reinterpret_cast<const std::byte*>(framed->data());
  return {absl::MakeSpan(start, framed->size()), std::move(framed)};
}

// Fills in the one free dimension, so that the tensor has `bytes` bytes.
absl::StatusOr<Shape> resolve(const TensorSpec& spec, Shape shape, size_t bytes) {
  int64_t* free = nullptr;
  uint64_t fixed = element_size(spec.datatype);
  for (int64_t& dim : shape) {
    if (dim >= 0) {
      fixed *= static_cast<uint64_t>(dim);
    } else if (free == nullptr) {
      free = &dim;
    } else {
      return invalid("input {} has the shape {}: a raw request can leave one dimension open",
                     spec.name, to_string(shape));
    }
  }
  if (fixed == 0 || bytes % fixed != 0 || (free == nullptr && bytes != fixed)) {
    return invalid("the body has {} bytes, which input {} of shape {} cannot hold", bytes,
                   spec.name, to_string(shape));
  }
  if (free != nullptr) *free = static_cast<int64_t>(bytes / fixed);
  return shape;
}

}  // namespace

absl::StatusOr<InferCall> decode_raw_infer(const InferBody& body, const engine::Variant& variant,
                                           HeldBytes& held) {
  const Signature& signature = variant.signature;
  if (signature.inputs.size() != 1) {
    return invalid("a raw request needs a model with one input, {} has {}", variant.model,
                   signature.inputs.size());
  }
  const TensorSpec& spec = signature.inputs.front();
  InferCall call;
  call.wishes.binary_data_output = true;
  Tensor& tensor = call.request.inputs.emplace_back();
  tensor.name = spec.name;
  tensor.datatype = spec.datatype;
  if (spec.datatype == DataType::kBytes) {
    if (body.bytes.size() > UINT32_MAX) return invalid("the body is longer than one BYTES element");
    if (!held.grow_by(body.bytes.size())) {
      return no_memory_for("the body and its copy", held.bytes() + body.bytes.size(), held,
                           kSmaller);
    }
    tensor.shape = signature.batches ? Shape{1, 1} : Shape{1};
    tensor.data = as_bytes_element(body.bytes);
    return call;
  }
  Shape shape = signature.wire_shape(spec);
  // Of two open dimensions the size of the body tells one, so it is one item.
  if (signature.batches && std::count(shape.begin(), shape.end(), -1) > 1) shape[0] = 1;
  ASSIGN_OR_RETURN(tensor.shape, resolve(spec, std::move(shape), body.bytes.size()));
  const auto* start = reinterpret_cast<const std::byte*>(body.bytes.data());
  tensor.data = Payload{absl::MakeSpan(start, body.bytes.size()), body.owner};
  return call;
}

}  // namespace fermata::serve
