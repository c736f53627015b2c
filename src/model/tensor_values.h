#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata {

// The elements of a tensor of any numeric datatype as floats, in their order; FP64 and
// whole numbers round. INVALID_ARGUMENT for BYTES, or where the payload is not what
// the shape says. O(elements).
absl::StatusOr<std::vector<float>> as_floats(const Tensor& tensor);

// The same as whole numbers: of BOOL and the integers only; a UINT64 beyond an
// int64's range is an error.
absl::StatusOr<std::vector<int64_t>> as_integers(const Tensor& tensor);

// The BYTES element that begins at `at`, which moves behind it; none where the bytes end before.
std::optional<absl::Span<const std::byte>> next_string(absl::Span<const std::byte> bytes,
                                                       size_t& at);

// How many bytes they have that are here.
uint64_t payload_bytes(absl::Span<const Tensor> tensors);

}  // namespace fermata
