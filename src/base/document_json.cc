#include "base/document_tree.h"
#include "base/status.h"

namespace fermata::document {
namespace {

// nlohmann's SAX interface on the builder.
class JsonHandler : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return builder_.value(nullptr); }
  bool boolean(bool v) override { return builder_.value(v); }
  bool number_integer(number_integer_t v) override { return builder_.value(v); }
  bool number_unsigned(number_unsigned_t v) override { return builder_.value(v); }
  bool number_float(number_float_t v, const string_t&) override { return builder_.value(v); }
  bool string(string_t& v) override { return builder_.value(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return builder_.begin_map(); }
  bool key(string_t& v) override { return builder_.key(std::move(v)); }
  bool end_object() override { return builder_.end(); }
  bool start_array(size_t) override { return builder_.begin_list(); }
  bool end_array() override { return builder_.end(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) override {
    std::string_view what = e.what();
    if (const size_t bracket = what.find("] "); bracket != what.npos)
      what.remove_prefix(bracket + 2);
    return builder_.fail(invalid("$: not JSON: {}", one_line(what)));
  }
  TreeBuilder& builder() { return builder_; }

 private:
  TreeBuilder builder_;
};

}  // namespace

absl::StatusOr<Json> parse_json(std::string_view text) {
  JsonHandler handler;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &handler);
  RETURN_IF_ERROR(handler.builder().status());
  if (!parsed) return invalid("$: not JSON");
  return handler.builder().take_root();
}

}  // namespace fermata::document
