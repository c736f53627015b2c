#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fermata {

// The whole of a file; "-" is standard input. Blocks. NOT_FOUND where it cannot
// be opened, INVALID_ARGUMENT where it cannot be read or has more than `limit` bytes.
absl::StatusOr<std::string> read_file(const std::string& file, size_t limit);

// Names one thing inside a folder and nothing else: not empty, no '/', no NUL, not "." or "..".
bool is_plain_name(std::string_view name);

}  // namespace fermata
