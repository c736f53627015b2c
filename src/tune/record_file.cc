#include "tune/record_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.h"
#include "base/status.h"

namespace fermata::tune {

absl::Status RecordFile::append(const Json& document) {
  const std::string line = document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::error_code none;
  const auto size = std::filesystem::file_size(file_, none);
  if (!none && size + line.size() > most_bytes_) {
    std::filesystem::rename(file_, file_ + ".1", none);
    if (none) {
      return error(absl::StatusCode::kUnavailable, "{}: cannot be renamed: {}", file_,
                   none.message());
    }
  }
  std::ofstream out(file_, std::ios::app | std::ios::binary);
  out << line;
  out.flush();
  if (out) return absl::OkStatus();
  return error(absl::StatusCode::kUnavailable, "{}: cannot be written", file_);
}

absl::StatusOr<Json> read_last_recording(const std::string& file) {
  ASSIGN_OR_RETURN(std::string text, read_file(file, 2 * RecordFile::kMostBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const auto parse = [](std::string_view part) {
    return Json::parse(part, nullptr, /*allow_exceptions=*/false);
  };
  Json document = parse(std::string_view(text).substr(text.rfind('\n') + 1));
  if (document.is_discarded()) document = parse(text);
  if (!document.is_object() || !document.contains("recorded") ||
      !document["recorded"].is_object() || !document["recorded"].contains("requests") ||
      !document["recorded"].contains("on_time")) {
    return invalid(
        "{}: expected what `fermata serve --record` writes, or GET /v2/live/recording gives", file);
  }
  return document;
}

}  // namespace fermata::tune
