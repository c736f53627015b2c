#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/tensor.h"

namespace fermata {

// A NumPy array file (.npy, format 1.0 to 3.0, as numpy.save writes it) as a tensor
// that is named after the file. Booleans, whole numbers and floats of 2, 4 and 8 bytes,
// little-endian, row by row; anything else is an error that names the file and says how to save it
// instead. Never allocates more than the file has bytes; the tensor borrows them.
absl::StatusOr<Tensor> parse_npy(std::string bytes, std::string_view source);
// Blocks. Files of at most 16 GiB; "-" is standard input.
absl::StatusOr<Tensor> read_npy(const std::string& file);

// The bytes of such a file, format 1.0. INVALID_ARGUMENT for BF16 and BYTES, which it does not
// know.
absl::StatusOr<std::string> npy_bytes(const Tensor& tensor);
// Blocks; replaces the file.
absl::Status write_npy(const Tensor& tensor, const std::string& file);

}  // namespace fermata
