#include "base/document_tree.h"

#include <algorithm>
#include <cctype>

#include "base/status.h"

namespace fermata::document {

std::string path_step(std::string_view name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  return plain ? fmt::format(".{}", name) : fmt::format("[\"{}\"]", one_line(name));
}

std::string one_line(std::string_view text) {
  std::string out;
  for (unsigned char c : text.substr(0, 160)) out += c >= 0x20 && c < 0x7f ? char(c) : '?';
  if (text.size() > 160) out += "...";
  return out;
}

size_t count_values(const Json& tree) {
  size_t n = 1;
  if (tree.is_structured()) {
    for (const Json& child : tree) n += count_values(child);
  }
  return n;
}

bool TreeBuilder::fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return false;
}

bool TreeBuilder::fail_here(std::string_view found, std::string_view expected) {
  return fail(invalid("{}: {}, expected {}", path(), found, expected));
}

std::string TreeBuilder::path() const {
  std::string path = "$";
  for (const Level& level : open_) {
    if (level.value.is_array()) {
      path += fmt::format("[{}]", level.value.size());
    } else if (level.has_key) {
      path += path_step(level.key);
    }
  }
  return path;
}

bool TreeBuilder::count(size_t values) {
  values_ += values;
  if (values_ <= kMaxValues) return true;
  return fail_here("one value too many", fmt::format("at most {} values", kMaxValues));
}

bool TreeBuilder::expects_key() const {
  return !open_.empty() && open_.back().value.is_object() && !open_.back().has_key;
}

void TreeBuilder::note_lines(size_t values) {
  if (line_ == 0) return;
  const bool has_key = !open_.empty() && open_.back().has_key;
  lines_.push_back(has_key ? open_.back().key_line : line_);
  lines_.insert(lines_.end(), values - 1, line_);
}

bool TreeBuilder::begin(Json empty) {
  if (!status_.ok() || !count(1)) return false;
  note_lines(1);
  if (open_.size() >= kMaxDepth) {
    return fail_here("nested too deep", fmt::format("at most {} levels", kMaxDepth));
  }
  open_.push_back({std::move(empty), {}, false, 0, {}});
  return true;
}

bool TreeBuilder::key(std::string name) {
  if (!status_.ok()) return false;
  Level& level = open_.back();
  const bool is_new = level.names.insert(name).second;
  level.key = std::move(name);
  level.has_key = true;
  level.key_line = line_;
  return is_new || fail_here("given twice", "each name once");
}

bool TreeBuilder::end() {
  if (!status_.ok()) return false;
  Json done = std::move(open_.back().value);
  open_.pop_back();
  return attach(std::move(done));
}

bool TreeBuilder::value(Json scalar) {
  const size_t values = count_values(scalar);
  if (!status_.ok() || !count(values)) return false;
  note_lines(values);
  return attach(std::move(scalar));
}

bool TreeBuilder::attach(Json value) {
  if (open_.empty()) {
    root_ = std::move(value);
    last_ = &root_;
    return true;
  }
  Level& level = open_.back();
  if (level.value.is_array()) {
    level.value.push_back(std::move(value));
  } else {
    // The names are known to differ: no search through those before.
    auto& object = level.value.get_ref<Json::object_t&>();
    object.push_back({std::move(level.key), std::move(value)});
    level.has_key = false;
  }
  last_ = &level.value.back();
  return true;
}

}  // namespace fermata::document
