#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpc_service.pb.h"
#include "model/tensor.h"

namespace fermata::serve {

// The typed `contents` of an input as little-endian bytes; a view into them,
// sharing `owner`, where they have the same layout. `tensor` has its name,
// datatype and shape. INVALID_ARGUMENT where the elements are in another list than
// the datatype's, out of its range, or not as many as the shape holds.
absl::StatusOr<Payload> read_contents(const inference::InferTensorContents& contents,
                                      const Tensor& tensor, std::shared_ptr<const void> owner);

}  // namespace fermata::serve
