#include "base/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/document_tree.h"
#include "base/nearest_name.h"
#include "base/status.h"

namespace fermata {
namespace document {

struct Errors {
  Json root;
  std::vector<uint32_t> lines;
  std::vector<std::string> unknown;  // fields
  absl::Status first;
  std::vector<std::string> more;
};

namespace {

constexpr size_t kMostErrors = 20;

std::string describe(const Json* node) {
  if (node == nullptr) return "missing";
  if (node->is_object()) return "a map";
  if (node->is_array()) return fmt::format("a list of {}", node->size());
  return one_line(node->dump(-1, ' ', true, Json::error_handler_t::replace));
}

// The steps from `from` to `target`, found by address; `before` counts the values before it.
bool find_path(const Json& from, const Json* target, std::string& path, size_t& before) {
  if (&from == target) return true;
  ++before;
  if (!from.is_structured()) return false;
  const size_t length = path.size();
  size_t index = 0;
  for (auto child = from.begin(); child != from.end(); ++child, ++index) {
    path += from.is_object() ? path_step(child.key()) : fmt::format("[{}]", index);
    if (find_path(*child, target, path, before)) return true;
    path.resize(length);
  }
  return false;
}

void add_unknown(Errors& errors, const std::string& field, const Json& value,
                 const std::vector<std::string_view>& known) {
  if (errors.unknown.size() >= kMostErrors) return;
  std::vector<std::string_view> names;  // once each
  for (const std::string_view name : known) {
    if (!absl::c_linear_search(names, name)) names.push_back(name);
  }
  std::string path = "$";
  size_t before = 0;
  find_path(errors.root, &value, path, before);
  const bool has_line = before < errors.lines.size();
  std::string error =
      fmt::format("{}: {}{}, expected no such field, but {}", path, describe(&value),
                  has_line ? fmt::format(" (line {})", errors.lines[before]) : std::string(),
                  fmt::join(names, ", "));
  if (const auto meant = nearest_name(field, names)) {
    error += fmt::format("; did you mean {}?", *meant);
  }
  errors.unknown.push_back(std::move(error));
}

}  // namespace
}  // namespace document

using document::describe;

bool is_name(std::string_view text) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return absl::c_none_of(text, control) && text.find_first_not_of(' ') != text.npos;
}

std::optional<uint32_t> number_of(std::string_view name) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  if (!whole || (name.size() > 1 && name[0] == '0')) return std::nullopt;
  return number;
}

bool Reader::is_null() const { return present() && node_->is_null(); }
bool Reader::is_number() const { return present() && node_->is_number(); }
bool Reader::is_string() const { return present() && node_->is_string(); }
bool Reader::is_list() const { return present() && node_->is_array(); }
bool Reader::is_object() const { return present() && node_->is_object(); }
bool Reader::failed() const { return !errors_->first.ok(); }

std::string Reader::path() const {
  std::string path = "$";
  size_t before = 0;
  document::find_path(errors_->root, present() ? node_ : parent_, path, before);
  return present() ? path : path + document::path_step(field_);
}

void Reader::fail(std::string_view expected) const {
  if (failed()) return;
  errors_->first = invalid("{}: {}, expected {}", path(), describe(node_), expected);
}

void Reader::wrong(std::string_view expected) const {
  if (!failed()) return fail(expected);
  const bool of_no_map = !present() && parent_ == nullptr;  // which has been said
  if (of_no_map || errors_->more.size() + 1 >= document::kMostErrors) return;
  std::string error = fmt::format("{}: {}, expected {}", path(), describe(node_), expected);
  const auto& more = errors_->more;
  if (error == errors_->first.message() || absl::c_linear_search(more, error)) return;
  errors_->more.push_back(std::move(error));
}

double Reader::checked(bool (*good)(double), std::string_view expected,
                       std::optional<double> fallback) const {
  if (!present() && fallback) return *fallback;
  if (is_number() && good(node_->get<double>())) return node_->get<double>();
  wrong(expected);
  return 0;
}

double Reader::number(std::optional<double> fallback) const {
  return checked([](double v) { return std::isfinite(v); }, "a number", fallback);
}
double Reader::non_negative(std::optional<double> fallback) const {
  return checked([](double v) { return std::isfinite(v) && v >= 0; }, "a non-negative number",
                 fallback);
}
double Reader::positive(std::optional<double> fallback) const {
  return checked([](double v) { return std::isfinite(v) && v > 0; }, "a positive number", fallback);
}

double Reader::between(double low, double high, std::optional<double> fallback) const {
  if (!present() && fallback) return *fallback;
  if (is_number()) {
    const double value = node_->get<double>();
    if (value >= low && value <= high) return value;
  }
  wrong(fmt::format("a number from {} to {}", low, high));
  return low;
}

int64_t Reader::integer(int64_t low, int64_t high, std::optional<int64_t> fallback) const {
  if (!present() && fallback) return *fallback;
  if (is_number()) {
    std::optional<int64_t> value;
    if (node_->is_number_float()) {
      const double v = node_->get<double>();
      if (v == std::floor(v) && std::abs(v) <= 0x1p53) value = static_cast<int64_t>(v);
    } else if (!node_->is_number_unsigned() || node_->get<uint64_t>() <= uint64_t{INT64_MAX}) {
      value = node_->get<int64_t>();
    }
    if (value && *value >= low && *value <= high) return *value;
  }
  wrong(fmt::format("a whole number from {} to {}", low, high));
  return low;
}

std::string Reader::string(std::optional<std::string> fallback) const {
  if (!present() && fallback) return *std::move(fallback);
  if (is_string() && !node_->get_ref<const std::string&>().empty())
    return node_->get<std::string>();
  wrong("a non-empty string");
  return {};
}

std::string Reader::name() const {
  if (is_string() && is_name(node_->get_ref<const std::string&>()))
    return node_->get<std::string>();
  wrong(kName);
  return {};
}

bool Reader::boolean(std::optional<bool> fallback) const {
  if (!present() && fallback) return *fallback;
  if (present() && node_->is_boolean()) return node_->get<bool>();
  wrong("true or false");
  return false;
}

size_t Reader::choice(const std::vector<std::string_view>& names,
                      std::optional<size_t> fallback) const {
  FERMATA_CHECK(!names.empty());
  if (!present() && fallback) return *fallback;
  if (is_string()) {
    const auto found = std::find(names.begin(), names.end(), node_->get_ref<const std::string&>());
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
  }
  wrong(fmt::format("one of {}", fmt::join(names, ", ")));
  return 0;
}

std::vector<Reader> Reader::list(size_t at_least) const {
  std::vector<Reader> readers;
  if (!is_list() || node_->size() < at_least) {
    wrong(at_least == 0 ? "a list" : fmt::format("a list of at least {}", at_least));
    return readers;
  }
  readers.reserve(node_->size());
  for (const Json& child : *node_) readers.push_back(Reader(errors_, &child, node_, {}));
  return readers;
}

std::vector<Reader> Reader::optional_list() const {
  return present() ? list() : std::vector<Reader>();
}

std::vector<std::pair<std::string, Reader>> Reader::map() const {
  std::vector<std::pair<std::string, Reader>> readers;
  if (!is_object()) {
    wrong("a map");
    return readers;
  }
  readers.reserve(node_->size());
  for (auto child = node_->begin(); child != node_->end(); ++child) {
    const Reader reader(errors_, &*child, node_, {});
    if (child.key().empty()) reader.wrong("a name that is not empty before it");
    readers.emplace_back(child.key(), reader);
  }
  return readers;
}

ObjectReader Reader::object() const {
  if (!is_object()) wrong("a map");
  return ObjectReader(errors_, is_object() ? node_ : nullptr);
}

ObjectReader::ObjectReader(document::Errors* errors, const Json* node)
    : errors_(errors), node_(node), asked_(node ? node->size() : 0) {}

ObjectReader::~ObjectReader() {
  if (node_ == nullptr || !errors_->first.ok()) return;
  size_t index = 0;
  for (auto child = node_->begin(); child != node_->end(); ++child) {
    if (!asked_[index++]) document::add_unknown(*errors_, child.key(), *child, known_);
  }
}

Reader ObjectReader::operator[](std::string_view field) {
  if (node_ == nullptr) return Reader(errors_, nullptr, nullptr, field);
  known_.push_back(field);
  size_t index = 0;
  for (auto child = node_->begin(); child != node_->end(); ++child, ++index) {
    if (child.key() != field) continue;
    asked_[index] = true;
    return Reader(errors_, &*child, node_, field);
  }
  return Reader(errors_, nullptr, node_, field);
}

Document::Document(Json root)
    : errors_(
          std::make_unique<document::Errors>(document::Errors{std::move(root), {}, {}, {}, {}})) {}

absl::StatusOr<Document> Document::parse(std::string_view text, Format format) {
  if (text.size() > document::kMaxText) {
    return invalid("$: {} bytes, expected at most {}", text.size(), document::kMaxText);
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != text.npos && (text[first] == '{' || text[first] == '[');
  if (format == Format::kEither) format = is_json ? Format::kJson : Format::kYaml;
  std::vector<uint32_t> lines;
  ASSIGN_OR_RETURN(Json root, format == Format::kJson ? document::parse_json(text)
                                                      : document::parse_yaml(text, lines));
  Document document(std::move(root));
  document.errors_->lines = std::move(lines);
  return document;
}

Document::Document(Document&&) noexcept = default;
Document::~Document() = default;
Reader Document::root() {
  errors_->first = absl::OkStatus();
  errors_->unknown.clear();
  errors_->more.clear();
  return Reader(errors_.get(), &errors_->root, nullptr, {});
}
absl::Status Document::status() const {
  if (errors_->unknown.empty()) return errors_->first;
  return invalid("{}", errors_->unknown.front());
}

std::vector<std::string> Document::errors() const {
  std::vector<std::string> all = errors_->unknown;
  if (!errors_->first.ok()) all.emplace_back(errors_->first.message());
  all.insert(all.end(), errors_->more.begin(), errors_->more.end());
  if (all.size() > document::kMostErrors) all.resize(document::kMostErrors);
  return all;
}

}  // namespace fermata
