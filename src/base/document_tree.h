#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/document.h"

namespace fermata::document {

inline constexpr size_t kMaxText = 64 << 20;
inline constexpr size_t kMaxDepth = 64;
inline constexpr size_t kMaxValues = 2'000'000;

// Builds a tree from a parser's events and enforces the limits and unique
// names. Each call returns false once something was wrong; status() says what.
class TreeBuilder {
 public:
  bool begin_map() { return begin(Json::object()); }
  bool begin_list() { return begin(Json::array()); }
  bool key(std::string name);
  bool end();  // of the innermost map or list
  bool value(Json scalar);
  bool fail(absl::Status status);
  // Records `expected` with the path of the value that would come next.
  bool fail_here(std::string_view found, std::string_view expected);

  // Takes values that stand nowhere in the text (a copy) off the limit.
  bool count(size_t values);

  // True after a map began or a value of it ended: the next event is a name.
  bool expects_key() const;
  void at_line(size_t line) { line_ = static_cast<uint32_t>(line); }  // the next event's, from 1
  // Of each value, of one with a name that of the name, in the order in which they begin; empty
  // where no line was told.
  std::vector<uint32_t> take_lines() { return std::move(lines_); }
  const absl::Status& status() const { return status_; }
  Json take_root() { return std::move(root_); }
  // The value that ended last. Valid until the next event.
  const Json& last() const { return *last_; }

 private:
  struct Level {
    Json value;
    std::string key;  // of the value that comes next, in a map
    bool has_key = false;
    uint32_t key_line = 0;
    absl::flat_hash_set<std::string> names;
  };
  bool begin(Json empty);
  void note_lines(size_t values);
  bool attach(Json value);
  std::string path() const;

  std::vector<Level> open_;
  Json root_;
  const Json* last_ = nullptr;
  size_t values_ = 0;
  uint32_t line_ = 0;
  std::vector<uint32_t> lines_;
  absl::Status status_;
};

absl::StatusOr<Json> parse_json(std::string_view text);
// `lines`: as TreeBuilder::take_lines().
absl::StatusOr<Json> parse_yaml(std::string_view text, std::vector<uint32_t>& lines);

// Values in a tree, itself included.
size_t count_values(const Json& tree);
// `.name`, or `["odd name"]` where a dot would mislead.
std::string path_step(std::string_view name);
// Prints on one line whatever bytes it holds.
std::string one_line(std::string_view text);

}  // namespace fermata::document
