#include "model/labels.h"

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"

namespace fermata {
namespace {

constexpr size_t kMostLabelBytes = 16 << 20;

}  // namespace

absl::StatusOr<Labels> read_labels(const ModelFolder& folder) {
  Labels labels;
  for (const auto& output : folder.config.output()) {
    if (output.label_filename().empty()) continue;
    const auto text = read_file((folder.path / output.label_filename()).string(), kMostLabelBytes);
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
