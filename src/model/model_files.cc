#include "model/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "base/status.h"
#include "model/model_kind.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLfs = "version https://git-lfs.github.com/spec/";
constexpr size_t kStart = 64;        // bytes that tell text from a model
constexpr size_t kMostNamed = 5;     // files in an error
constexpr size_t kLongestText = 40;  // of a file in an error

// How the files of models end that other servers and backends read.
constexpr std::array<std::string_view, 11> kOtherKinds = {
    ".py",         ".plan",     ".engine", ".pt", ".pth",   ".pt2",
    ".savedmodel", ".graphdef", ".xml",    ".so", ".tflite"};

bool is_other_kind(const fs::path& file) {
  return absl::c_linear_search(kOtherKinds, absl::AsciiStrToLower(file.extension().string()));
}

bool is_onnx(const fs::path& file) {
  const std::string extension = absl::AsciiStrToLower(file.extension().string());
  return extension == ".onnx" || extension == ".ort";
}

std::string start_of(const fs::path& file) {
  std::string start(kStart, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(in.gcount()));
  return start;
}

// Sorted, without hidden ones.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->path().filename().string()[0] != '.') found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string names(const std::vector<fs::path>& files) {
  std::vector<std::string> list;
  for (const fs::path& file : files) {
    if (list.size() == kMostNamed) break;
    list.push_back(fmt::format("'{}'", file.filename().string()));
  }
  const size_t more = files.size() - list.size();
  return fmt::format("{}{}", fmt::join(list, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string what_is_served() { return fmt::format("only {} are served", served_models()); }

bool is_kind(const fs::path& file, std::string_view extension) {
  return absl::AsciiStrToLower(file.extension().string()) == extension;
}

absl::Status not_there(const fs::path& file) {
  const std::string where = file.string();
  const std::vector<fs::path> beside = entries(file.parent_path());
  if (beside.empty()) return invalid("{}: no such file, its folder is empty", where);
  if (is_kind(file, ".py")) {
    return invalid(
        "{}: no such file, its folder has {}: expected the class TritonPythonModel there", where,
        names(beside));
  }
  const auto onnx = absl::c_find_if(beside, is_onnx);
  if (onnx != beside.end()) {
    const std::string name = onnx->filename().string();
    return invalid(
        "{}: no such file, but '{}' is there: rename it, or set default_model_filename: \"{}\"",
        where, name, name);
  }
  return invalid("{}: no such file, its folder has {}: {}", where, names(beside), what_is_served());
}

// Of OpenVINO's: a text with the layers, and their weights beside it.
absl::Status check_network(const fs::path& file, std::string_view start) {
  std::error_code ignored;
  if (!start.starts_with("<?xml") && !start.starts_with("<net")) {
    return invalid("{}: begins with '{}', expected an OpenVINO model", file.string(),
                   start.substr(0, std::min(kLongestText, start.find('\n'))));
  }
  const fs::path weights = fs::path(file).replace_extension(".bin");
  if (fs::is_regular_file(weights, ignored)) return absl::OkStatus();
  return invalid("{}: no such file, expected the weights of {} there", weights.string(),
                 file.filename().string());
}

absl::Status check_content(const fs::path& file) {
  const std::string start = start_of(file);
  if (is_kind(file, ".py") && !start.empty()) return absl::OkStatus();
  if (is_kind(file, ".xml") && !start.empty()) return check_network(file, start);
  if (is_other_kind(file)) return invalid("{}: {}", file.string(), what_is_served());
  if (start.empty()) return invalid("{}: the file is empty", file.string());
  const bool text = absl::c_all_of(
      start, [](unsigned char c) { return absl::ascii_isprint(c) || absl::ascii_isspace(c); });
  if (!text) return absl::OkStatus();
  return invalid("{}: text that begins with '{}', expected an ONNX model", file.string(),
                 start.substr(0, std::min(kLongestText, start.find('\n'))));
}

}  // namespace

absl::Status check_not_pointer(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored) || !start_of(file).starts_with(kLfs)) {
    return absl::OkStatus();
  }
  return invalid("{}: a Git LFS pointer, not the file itself: fetch it with `git lfs pull`",
                 file.string());
}

absl::Status check_model_file(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return not_there(file);
  for (const fs::path& weights : entries(file.parent_path())) {
    RETURN_IF_ERROR(check_not_pointer(weights));
  }
  return check_content(file);
}

absl::Status no_version(const fs::path& folder) {
  const std::string expected =
      fmt::format("no version, expected a folder with a positive number such as 1 that holds {}",
                  served_files());
  std::vector<fs::path> models = entries(folder);
  std::vector<fs::path> folders = models;
  std::error_code ignored;
  const auto is_model = [](const fs::path& file) {
    return is_onnx(file) || (file.stem() == "model" && is_other_kind(file));
  };
  std::erase_if(models, [&](const fs::path& file) { return !is_model(file); });
  std::erase_if(folders, [&](const fs::path& file) { return !fs::is_directory(file, ignored); });
  if (const auto onnx = absl::c_find_if(models, is_onnx); onnx != models.end()) {
    return invalid("{}: {}; '{}' is there: move it to {}", folder.string(), expected,
                   onnx->filename().string(), (folder / "1/model.onnx").string());
  }
  if (!models.empty()) {
    return invalid("{}: {}; {} is there: {}", folder.string(), expected, names(models),
                   what_is_served());
  }
  return error(absl::StatusCode::kFailedPrecondition, "{}: {}{}", folder.string(), expected,
               folders.empty() ? "" : fmt::format("; its folders are {}", names(folders)));
}

}  // namespace fermata
