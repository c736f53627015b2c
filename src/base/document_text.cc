#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/check.h"
#include "base/document.h"
#include "base/document_tree.h"
#include "base/status.h"

namespace fermata {
namespace {

absl::StatusOr<std::string> read_text(std::istream& in, const std::string& file) {
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<size_t>(in.gcount()));
    if (text.size() > document::kMaxText) break;
  }
  if (in.bad()) return invalid("{}: cannot be read, expected a file", file);
  return text;
}

Document::Format format_of(const std::string& file) {
  if (file.ends_with(".json")) return Document::Format::kJson;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return Document::Format::kYaml;
  return Document::Format::kEither;
}

bool looks_like_json(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && (text[first] == '{' || text[first] == '[');
}

bool all_finite(const Json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  if (!value.is_structured()) return true;
  for (const Json& child : value) {
    if (!all_finite(child)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Document> Document::parse(std::string_view text, Format format) {
  if (text.size() > document::kMaxText) {
    return invalid("$: {} bytes, expected at most {}", text.size(), document::kMaxText);
  }
  if (format == Format::kEither) format = looks_like_json(text) ? Format::kJson : Format::kYaml;
  ASSIGN_OR_RETURN(
      Json root, format == Format::kJson ? document::parse_json(text) : document::parse_yaml(text));
  return Document(std::move(root));
}

absl::StatusOr<Document> Document::load(const std::string& file) {
  if (file == "-") {
    ASSIGN_OR_RETURN(const std::string text, read_text(std::cin, "standard input"));
    return parse(text);
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return not_found("{}: cannot be opened, expected a JSON or YAML file", file);
  ASSIGN_OR_RETURN(const std::string text, read_text(in, file));
  return parse(text, format_of(file));
}

std::string write_json(const Json& value) {
  FERMATA_CHECK(all_finite(value));
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fermata
