#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include "base/document_tree.h"
#include "base/status.h"

namespace fermata::document {
namespace {

template <class T>
bool parse_all(std::string_view text, T& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

// The integers of YAML 1.2's core schema: 12, -3, 0o17, 0xFF.
std::optional<Json> parse_integer(std::string_view text) {
  int base = 10;
  if (text.starts_with("0o") || text.starts_with("0x")) {
    base = text[1] == 'o' ? 8 : 16;
    text.remove_prefix(2);
    if (text.starts_with('-')) return std::nullopt;
  } else if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  int64_t small = 0;
  if (parse_all(text, small, base)) return Json(small);
  uint64_t large = 0;
  if (parse_all(text, large, base)) return Json(large);
  return std::nullopt;
}

// Its floats, NaN and the infinities included: the caller refuses those.
std::optional<double> parse_float(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('+') || digits.starts_with('-')) digits.remove_prefix(1);
  if (digits == ".inf" || digits == ".Inf" || digits == ".INF") return INFINITY;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return NAN;
  if (digits.find_first_not_of("0123456789.eE+-") != digits.npos) return std::nullopt;
  if (text.starts_with('+')) text = digits;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return INFINITY;
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

struct Stop {};  // leaves yaml-cpp's parser once the builder has an error

class YamlHandler : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.at_line(mark.line + 1);
    if (builder_.expects_key()) {
      must(builder_.key("null"));
      return;
    }
    must(builder_.value(nullptr));
    remember(anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.at_line(mark.line + 1);
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) {
      must(builder_.fail_here("an alias", "one of a value that ended before"));
    } else if (builder_.expects_key()) {
      must(builder_.fail_here("an alias as a name", "a name"));
    } else {
      must(builder_.value(target->second));
    }
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    builder_.at_line(mark.line + 1);
    if (builder_.expects_key()) {
      must(builder_.key(text));
      return;
    }
    if (tag == "?") {
      plain(text);
    } else if (tag == "!" || tag.empty() || tag == "tag:yaml.org,2002:str") {
      must(builder_.value(text));
    } else {
      must(builder_.fail_here(fmt::format("tag {}", one_line(tag)), "no tag"));
    }
    remember(anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    builder_.at_line(mark.line + 1);
    open(tag, anchor);
    must(builder_.begin_list());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    builder_.at_line(mark.line + 1);
    open(tag, anchor);
    must(builder_.begin_map());
  }
  void OnMapEnd() override { close(); }

  TreeBuilder& builder() { return builder_; }

 private:
  void must(bool good) {
    if (!good) throw Stop();
  }

  void plain(const std::string& text) {
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
      must(builder_.value(nullptr));
    } else if (text == "true" || text == "True" || text == "TRUE") {
      must(builder_.value(true));
    } else if (text == "false" || text == "False" || text == "FALSE") {
      must(builder_.value(false));
    } else if (auto whole = parse_integer(text)) {
      must(builder_.value(*std::move(whole)));
    } else if (auto number = parse_float(text)) {
      must(std::isfinite(*number) ? builder_.value(*number)
                                  : builder_.fail_here(one_line(text), "a finite number"));
    } else {
      must(builder_.value(text));
    }
  }

  void open(const std::string& tag, YAML::anchor_t anchor) {
    if (builder_.expects_key()) must(builder_.fail_here("a list or map as a name", "a name"));
    if (tag != "?" && tag != "!" && !tag.empty()) {
      must(builder_.fail_here(fmt::format("tag {}", one_line(tag)), "no tag"));
    }
    open_anchors_.push_back(anchor);
  }

  void close() {
    must(builder_.end());
    remember(open_anchors_.back());
    open_anchors_.pop_back();
  }

  void remember(YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    must(builder_.count(count_values(builder_.last())));
    anchors_[anchor] = builder_.last();
  }

  TreeBuilder builder_;
  std::map<YAML::anchor_t, Json> anchors_;
  std::vector<YAML::anchor_t> open_anchors_;  // of the maps and lists that are open
};

absl::Status run_parser(std::string_view text, YamlHandler& handler) {
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(handler)) return invalid("$: empty, expected a document");
    YamlHandler second;
    if (parser.HandleNextDocument(second)) return invalid("$: several documents, expected one");
  } catch (const Stop&) {
    return handler.builder().status();
  } catch (const YAML::Exception& e) {
    return invalid("$: not YAML: line {}, column {}: {}", e.mark.line + 1, e.mark.column + 1,
                   one_line(e.msg));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Json> parse_yaml(std::string_view text, std::vector<uint32_t>& lines) {
  YamlHandler handler;
  RETURN_IF_ERROR(run_parser(text, handler));
  lines = handler.builder().take_lines();
  return handler.builder().take_root();
}

}  // namespace fermata::document
