#include "model/labels.h"

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"
#include "model/model_files.h"

namespace fermata {
namespace {

constexpr size_t kMostLabelBytes = 16 << 20;

}  // namespace

absl::StatusOr<Labels> read_labels(const ModelFolder& folder) {
  Labels labels;
  for (const auto& output : folder.config.output()) {
    if (output.label_filename().empty()) continue;
    const std::filesystem::path file = folder.path / output.label_filename();
    RETURN_IF_ERROR(check_not_pointer(file));
    const auto text = read_file(file.string(), kMostLabelBytes);
    if (!text.ok()) {
      return invalid("output '{}': label_filename: {}", output.name(), message(text.status()));
    }
    std::vector<std::string>& own = labels[output.name()];
    for (const auto line : absl::StrSplit(absl::StripSuffix(*text, "\n"), '\n')) {
      own.emplace_back(absl::StripSuffix(line, "\r"));
    }
  }
  return labels;
}

}  // namespace fermata
