#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata {

using Json = nlohmann::ordered_json;  // keeps the order of fields

namespace document {
struct Errors;  // of one reading, and the root that they are paths from
}

class ObjectReader;

// Whether it can stand in logs, metrics and paths: not blank, and without control characters.
bool is_name(std::string_view text);
inline constexpr std::string_view kName = "a name that is not blank and has no control characters";
// A number that stands as the name of a field, without sign, spaces and leading zeros.
std::optional<uint32_t> number_of(std::string_view name);

// One value of a document, or the place of a field that is missing. A getter
// returns the value, or records `path: what stands there, expected what` and
// returns a harmless one (0, "", false, none); Document::read() returns the first error, and
// Document::errors() what else getters found. A getter that takes a fallback returns it where
// the field is missing, and so makes it optional. Cheap to copy; valid while
// the Document is.
class Reader {
 public:
  bool present() const { return node_ != nullptr; }
  bool is_null() const;
  bool is_number() const;
  bool is_string() const;
  bool is_list() const;
  bool is_object() const;

  // Finite always; the text's own NaN and infinities are errors before.
  double number(std::optional<double> fallback = {}) const;
  double non_negative(std::optional<double> fallback = {}) const;
  double positive(std::optional<double> fallback = {}) const;
  double between(double low, double high, std::optional<double> fallback = {}) const;
  // A whole number from low to high; 8.0 is one.
  int64_t integer(int64_t low, int64_t high, std::optional<int64_t> fallback = {}) const;
  // Not empty.
  std::string string(std::optional<std::string> fallback = {}) const;
  std::string name() const;  // a string that is_name()
  bool boolean(std::optional<bool> fallback = {}) const;
  // One of the names, as its index; `names` is not empty.
  size_t choice(const std::vector<std::string_view>& names,
                std::optional<size_t> fallback = {}) const;
  std::vector<Reader> list(size_t at_least = 0) const;
  std::vector<Reader> optional_list() const;  // empty where it is missing
  // A map whose names are the user's, in the order of the text; no name is empty.
  std::vector<std::pair<std::string, Reader>> map() const;
  // A map whose fields are known. Each reader of it notices unknown ones.
  ObjectReader object() const;

  // For what a getter cannot know (a duplicate name, an unknown reference). Only where nothing has
  // failed before: it may be wrong for that reason.
  void fail(std::string_view expected) const;
  std::string path() const;  // "$.models[0].name"; O(document)
  bool failed() const;       // an error has been recorded, here or elsewhere

 private:
  friend class Document;
  friend class ObjectReader;
  Reader(document::Errors* errors, const Json* node, const Json* parent, std::string_view field)
      : errors_(errors), node_(node), parent_(parent), field_(field) {}
  void wrong(std::string_view expected) const;  // as fail(), of what does not depend on others
  double checked(bool (*good)(double), std::string_view expected,
                 std::optional<double> fallback) const;

  document::Errors* errors_;
  const Json* node_;    // null: missing
  const Json* parent_;  // for a field that is missing, with its name; null where it is of no map
  std::string_view field_;
};

// The fields of one map. When it goes, each field that nobody asked for is an error.
class ObjectReader {
 public:
  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;
  ~ObjectReader();
  // `field` must outlive this and the reader that it gives: a literal.
  Reader operator[](std::string_view field);

 private:
  friend class Reader;
  ObjectReader(document::Errors* errors, const Json* node);
  document::Errors* errors_;
  const Json* node_;  // null: it was no map, which has been said
  std::vector<bool> asked_;
  std::vector<std::string_view> known_;
};

// A JSON or YAML text as one tree. Limits: 64 MiB of text, 64 levels, two
// million values, YAML's aliases counted as often as they stand there. A field
// given twice is an error.
class Document {
 public:
  enum class Format { kJson, kYaml, kEither };  // kEither: JSON if it starts with { or [
  static absl::StatusOr<Document> parse(std::string_view text, Format format = Format::kEither);
  // By the file's ending (.json, .yaml, .yml; others kEither); "-" is standard input. Blocks.
  static absl::StatusOr<Document> load(const std::string& file);

  Document(Document&&) noexcept;
  ~Document();
  // `value_of` reads the root by getters. The first unknown field wins, else the first error.
  template <class F>
  absl::StatusOr<std::invoke_result_t<F, Reader>> read(F value_of) {
    auto value = value_of(root());
    if (absl::Status s = status(); !s.ok()) return s;
    return value;
  }
  // All that the last read() found, the first first; 20 at most.
  std::vector<std::string> errors() const;

 private:
  explicit Document(Json root);
  Reader root();
  absl::Status status() const;
  std::unique_ptr<document::Errors> errors_;
};

// The text of a result: fields in the order they were set, doubles so that they
// read back to the same bits, a newline at the end. NaN or infinity in it is a
// broken invariant.
std::string write_json(const Json& value);

}  // namespace fermata
