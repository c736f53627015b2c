#include "store/mirror.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/file.h"
#include "base/status.h"

namespace fermata::store {
namespace {

namespace fs = std::filesystem;

// Beside each file: hidden, so that no model or version is made of it.
fs::path etag_file(const fs::path& place) {
  return place.parent_path() / ("." + place.filename().string() + ".etag");
}

std::string etag_of(const fs::path& place) {
  std::ifstream in(etag_file(place));
  return {std::istreambuf_iterator<char>(in), {}};
}

// A key must not leave the folder, and hidden names are ours.
bool is_plain(const fs::path& relative) {
  return !relative.empty() && relative.is_relative() &&
         std::all_of(relative.begin(), relative.end(), [](const fs::path& part) {
           const std::string name = part.string();
           return is_plain_name(name) && name.front() != '.';
         });
}

}  // namespace

Mirror::Mirror(std::unique_ptr<ObjectStore> store, std::string prefix, fs::path folder)
    : store_(std::move(store)), prefix_(std::move(prefix)), folder_(std::move(folder)) {
  std::error_code ignored;  // whoever writes into it says what is wrong
  fs::create_directories(folder_, ignored);
}

absl::Status Mirror::refresh(std::string_view model) {
  const std::lock_guard lock(mutex_);
  const std::string below = model.empty() ? "" : std::string(model) + "/";
  ASSIGN_OR_RETURN(const std::vector<Object> objects, store_->list(prefix_ + below));
  std::vector<fs::path> kept;
  for (const Object& object : objects) {
    if (object.key.back() == '/') continue;  // a folder, as consoles make them
    const fs::path relative = object.key.substr(prefix_.size());
    if (!is_plain(relative)) {
      return invalid(
          "the store has an object '{}', expected no part of its name to be empty or to "
          "begin with '.'",
          object.key);
    }
    kept.push_back(folder_ / relative);
    RETURN_IF_ERROR(bring(object, kept.back()));
  }
  std::sort(kept.begin(), kept.end());
  return remove_others(folder_ / below, kept);
}

absl::Status Mirror::bring(const Object& object, const fs::path& place) {
  std::error_code problem;
  if (fs::exists(place, problem) && etag_of(place) == object.etag) return absl::OkStatus();
  fs::create_directories(place.parent_path(), problem);
  const fs::path part = place.parent_path() / ("." + place.filename().string() + ".part");
  RETURN_IF_ERROR(store_->fetch(object.key, part));
  if (const auto size = fs::file_size(part, problem);
      problem || size != static_cast<uintmax_t>(object.bytes)) {
    return error(absl::StatusCode::kUnavailable, "the store gave {} bytes of '{}', expected {}",
                 problem ? 0 : size, object.key, object.bytes);
  }
  fs::remove(etag_file(place), problem);
  fs::rename(part, place, problem);
  if (problem) return internal("cannot write {}: {}", place.string(), problem.message());
  std::ofstream(etag_file(place)) << object.etag;
  return absl::OkStatus();
}

absl::Status Mirror::remove_others(const fs::path& below, const std::vector<fs::path>& kept) {
  std::vector<fs::path> gone;
  std::error_code problem;
  for (fs::recursive_directory_iterator it(below, problem), end; !problem && it != end;
       it.increment(problem)) {
    const bool hidden = it->path().filename().string().front() == '.';
    if (!hidden && it->is_regular_file(problem)) gone.push_back(it->path());
  }
  for (const fs::path& place : gone) {
    if (std::binary_search(kept.begin(), kept.end(), place)) continue;
    fs::remove(etag_file(place), problem);
    fs::remove(place, problem);
    // Folders that hold nothing more are no models and no versions.
    for (fs::path folder = place.parent_path();
         folder != folder_ && fs::is_empty(folder, problem) && !problem;
         folder = folder.parent_path()) {
      fs::remove(folder, problem);
    }
  }
  return absl::OkStatus();
}

fs::path default_mirror(std::string_view url) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path base = cache != nullptr && *cache != '\0' ? fs::path(cache)
                        : home != nullptr && *home != '\0' ? fs::path(home) / ".cache"
                                                           : fs::temp_directory_path();
  std::string name(url);
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-'; }, '_');
  return base / "fermata" / name;
}

}  // namespace fermata::store
