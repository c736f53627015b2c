#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "base/document.h"
#include "base/status.h"
#include "model/latency_document.h"
#include "walk.h"

// Whatever the bytes are, reading them ends in a value or in one line.
namespace fermata {
namespace {

void read_both(std::string_view text, Document::Format format) {
  absl::StatusOr<Document> document = Document::parse(text, format);
  absl::Status status = document.status();
  if (document.ok()) {
    status = document->read(walk).status();
    (void)document->read(read_latency);
  }
  FERMATA_CHECK(status.ok() || message(status).find('\n') == std::string_view::npos);
}

}  // namespace
}  // namespace fermata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fermata::read_both(text, fermata::Document::Format::kJson);
  fermata::read_both(text, fermata::Document::Format::kYaml);
  return 0;
}
