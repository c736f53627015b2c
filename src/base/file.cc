#include "base/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>

#include "base/status.h"

namespace fermata {
namespace {

absl::StatusOr<std::string> read_all(std::istream& in, const std::string& file, LimitOf limit_of) {
  std::string text;
  std::optional<size_t> limit;
  char block[1 << 16];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (!limit) {
      ASSIGN_OR_RETURN(limit, limit_of(text));
    }
    if (text.size() > *limit) return invalid("{}: more than {} bytes", file, *limit);
  }
  if (in.bad()) return invalid("{}: cannot be read, expected a file", file);
  return text;
}

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& file, size_t limit) {
  return read_file(file, [limit](std::string_view) { return limit; });
}

absl::StatusOr<std::string> read_file(const std::string& file, LimitOf limit_of) {
  if (file == "-") return read_all(std::cin, "standard input", limit_of);
  std::ifstream in(file, std::ios::binary);
  if (!in)
    return not_found("{}: cannot be opened ({}), expected a file", file, std::strerror(errno));
  return read_all(in, file, limit_of);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace fermata
