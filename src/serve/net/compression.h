#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace fermata::serve {

enum class Encoding { kIdentity, kGzip, kDeflate };

// The value of Content-Encoding. UNIMPLEMENTED for others.
absl::StatusOr<Encoding> parse_content_encoding(std::string_view value);
// The one to answer with; identity where the client accepts no other.
Encoding choose_encoding(std::string_view accept_encoding);
std::string_view name(Encoding encoding);

// INVALID_ARGUMENT where the text is damaged or would be larger than `limit`
// bytes (so that a small body cannot fill the memory). `hold` is asked before so many more bytes
// are taken; where it says no, RESOURCE_EXHAUSTED.
absl::StatusOr<std::string> decompress(
    std::string_view text, Encoding encoding, size_t limit,
    absl::FunctionRef<bool(size_t)> hold = [](size_t) { return true; });
// All pieces as one stream.
std::string compress(const std::vector<std::string_view>& pieces, Encoding encoding);

}  // namespace fermata::serve
