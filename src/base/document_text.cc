#include <cmath>

#include "base/check.h"
#include "base/document.h"
#include "base/document_tree.h"
#include "base/file.h"
#include "base/status.h"

namespace fermata {
namespace {

Document::Format format_of(const std::string& file) {
  if (file.ends_with(".json")) return Document::Format::kJson;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return Document::Format::kYaml;
  return Document::Format::kEither;
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

absl::StatusOr<Document> Document::load(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, read_file(file, document::kMaxText));
  return parse(text, format_of(file));
}

std::string write_json(const Json& value) {
  FERMATA_CHECK(all_finite(value));
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fermata
