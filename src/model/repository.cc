#include "model/repository.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "base/status.h"
#include "model/dynamic_network.h"
#include "model/model_config.h"
#include "model/model_files.h"
#include "model/model_kind.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;
// A configuration is a page of text; what is larger is not one.
constexpr uintmax_t kMaxConfigBytes = 4 << 20;
constexpr std::string_view kOfTheVolume = "lost+found";  // where a repository is one

absl::StatusOr<std::string> read_text(const fs::path& file) {
  std::error_code failed;
  RETURN_IF_ERROR(check_not_pointer(file));
  if (const auto size = fs::file_size(file, failed); failed || size > kMaxConfigBytes) {
    return invalid(
        "{}: {}", file.string(),
        failed ? failed.message() : fmt::format("larger than {} bytes", kMaxConfigBytes));
  }
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return invalid("{}: cannot be read", file.string());
  return std::move(text).str();
}

std::optional<int64_t> version_number(const std::string& name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 1 || name[0] == '0') {
    return std::nullopt;
  }
  return number;
}

std::vector<int64_t> versions_in(const fs::path& folder) {
  std::vector<int64_t> versions;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    if (auto number = version_number(entry.path().filename().string())) versions.push_back(*number);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::StatusOr<std::vector<int64_t>> pick(const inference::ModelVersionPolicy& policy,
                                          std::vector<int64_t> versions) {
  if (policy.has_all()) return versions;
  if (policy.has_specific()) {
    std::vector<int64_t> wanted(policy.specific().versions().begin(),
                                policy.specific().versions().end());
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    for (int64_t version : wanted) {
      if (!std::binary_search(versions.begin(), versions.end(), version)) {
        return invalid("version_policy names version {}, which has no folder", version);
      }
    }
    if (wanted.empty()) return invalid("version_policy.specific names no version");
    return wanted;
  }
  const size_t count = std::max<uint32_t>(1, policy.latest().num_versions());
  if (versions.size() > count) versions.erase(versions.begin(), versions.end() - count);
  return versions;
}

// Who opens a pipe waits for somebody to write into it, maybe for ever.
absl::Status check_kinds(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::file_status status = entry.status(ignored);
    if (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status)) continue;
    return invalid("{}: neither a file nor a folder, expected nothing else in a model's folders",
                   entry.path().string());
  }
  return absl::OkStatus();
}

// Of a folder whose configuration does not say what it is, its files do: the first kind counts of
// which there is one.
void take_for_its_file(ModelFolder& folder) {
  const inference::ModelConfig& config = folder.config;
  if (!config.backend().empty() || !config.platform().empty()) return;
  if (!config.default_model_filename().empty()) return;
  const fs::path version = folder.files / std::to_string(folder.versions.back());
  for (const ModelKind& kind : model_kinds()) {
    std::error_code ignored;
    if (!fs::exists(version / kind.file, ignored)) continue;
    if (&kind != &model_kinds().front()) folder.config.set_backend(std::string(kind.backend));
    return;
  }
}

// Nothing that a configuration names lies outside the model's own folder.
absl::Status check_file_names(const inference::ModelConfig& config) {
  const auto check = [](std::string_view field, const std::string& name) -> absl::Status {
    if (name.empty() || is_plain_name(name)) return absl::OkStatus();
    return invalid("{} is '{}', expected the name of a file without '/'", field, name);
  };
  RETURN_IF_ERROR(check("default_model_filename", config.default_model_filename()));
  for (const auto& [kind, name] : config.cc_model_filenames()) {
    RETURN_IF_ERROR(check("cc_model_filenames", name));
  }
  for (const auto& output : config.output()) {
    RETURN_IF_ERROR(
        check(fmt::format("output '{}': label_filename", output.name()), output.label_filename()));
  }
  return absl::OkStatus();
}

}  // namespace

std::map<uint32_t, fs::path> ModelFolder::profiles_by_threads() const {
  constexpr std::string_view kBefore = "profile.threads-", kBehind = ".json";
  std::map<uint32_t, fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(kBefore) || !file.ends_with(kBehind)) continue;
    const size_t digits = file.size() - kBefore.size() - kBehind.size();
    const auto threads = version_number(file.substr(kBefore.size(), digits));
    if (threads && *threads <= 1024) found[static_cast<uint32_t>(*threads)] = entry.path();
  }
  return found;
}

absl::Status ModelFolder::in_config(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", source, message(status)));
}

fs::path ModelFolder::file(int64_t version) const {
  const std::string& name = config.default_model_filename();
  const std::string usual(kind_of(config).file);
  fs::path file = files / std::to_string(version) / (name.empty() ? usual : name);
  std::error_code ignored;
  return fs::is_directory(file, ignored) ? file / usual : file;
}

absl::StatusOr<std::vector<std::string>> model_names(const fs::path& repository) {
  std::error_code failed;
  std::vector<std::string> names;
  for (fs::directory_iterator it(repository, failed), end; !failed && it != end;
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (name == kOfTheVolume) continue;
    if (name[0] != '.' && it->is_directory(ignored)) names.push_back(name);
  }
  if (failed) {
    return not_found("model repository {}: {}", repository.string(), failed.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ModelFolder> read_model_folder(const fs::path& repository, std::string_view name,
                                              const std::optional<std::string>& config) {
  ModelFolder folder{.name = std::string(name), .path = repository / name};
  std::error_code ignored;
  const bool plain = is_plain_name(name) && name[0] != '.';
  if (!plain || !fs::is_directory(folder.path, ignored)) {
    return not_found("model '{}' is not in the repository {}", name, repository.string());
  }
  RETURN_IF_ERROR(check_kinds(folder.path));
  const fs::path config_file = folder.path / "config.pbtxt";
  folder.source = config ? "parameter 'config'" : config_file.string();
  if (config) {
    ASSIGN_OR_RETURN(folder.config, parse_model_config(*config, folder.source));
  } else if (fs::exists(config_file, ignored)) {
    ASSIGN_OR_RETURN(const std::string text, read_text(config_file));
    ASSIGN_OR_RETURN(folder.config, parse_model_config(text, folder.source));
  }
  RETURN_IF_ERROR(folder.in_config(check_kind(folder.config, name)));
  RETURN_IF_ERROR(folder.in_config(check_file_names(folder.config)));
  folder.files = folder.path;
  if (const std::string other = weights_of(folder.config); !other.empty()) {
    folder.files = repository / other;
    if (!is_plain_name(other) || other[0] == '.' || !fs::is_directory(folder.files, ignored)) {
      return invalid("{}: parameters: weights_of is '{}', expected a model of the repository",
                     folder.source, other);
    }
  }
  const std::vector<int64_t> versions = versions_in(folder.files);
  if (versions.empty()) return no_version(folder.files);
  auto picked = pick(folder.config.version_policy(), versions);
  RETURN_IF_ERROR(folder.in_config(picked.status()));
  folder.versions = *std::move(picked);
  take_for_its_file(folder);
  RETURN_IF_ERROR(check_kinds(folder.files));
  for (const int64_t version : folder.versions) {
    RETURN_IF_ERROR(check_kinds(folder.files / std::to_string(version)));
    RETURN_IF_ERROR(check_kinds(folder.file(version).parent_path()));
  }
  return folder;
}

}  // namespace fermata
