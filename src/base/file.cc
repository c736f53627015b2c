#include "base/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/status.h"

namespace fermata {
namespace {

absl::StatusOr<std::string> read_all(std::istream& in, const std::string& file, size_t limit) {
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (text.size() > limit) return invalid("{}: more than {} bytes", file, limit);
  }
  if (in.bad()) return invalid("{}: cannot be read, expected a file", file);
  return text;
}

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& file, size_t limit) {
  if (file == "-") return read_all(std::cin, "standard input", limit);
  std::ifstream in(file, std::ios::binary);
  if (!in)
    return not_found("{}: cannot be opened ({}), expected a file", file, std::strerror(errno));
  return read_all(in, file, limit);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace fermata
