#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace fermata {

// The whole of a file; "-" is standard input. Blocks. NOT_FOUND where it cannot
// be opened, INVALID_ARGUMENT where it cannot be read or has more than `limit` bytes.
absl::StatusOr<std::string> read_file(const std::string& file, size_t limit);
// The same where the start of a file, its first 64 KiB, says how long it may be, or that it is
// nothing to read: a device that never ends is refused at its start.
using LimitOf = absl::FunctionRef<absl::StatusOr<size_t>(std::string_view start)>;
absl::StatusOr<std::string> read_file(const std::string& file, LimitOf limit_of);

// Names one thing inside a folder and nothing else: not empty, no '/', no NUL, not "." or "..".
bool is_plain_name(std::string_view name);

}  // namespace fermata
