#include "serve/json/json_text.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <iterator>
#include <type_traits>

namespace fermata::serve {
namespace {

void append_escaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
  }
}

bool needs_escape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

}  // namespace

void append_json(std::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    if (needs_escape(c)) [[unlikely]] {
      append_escaped(c, out);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

void append_json(const ParameterValue& value, std::string& out) {
  std::visit(
      [&](const auto& v) {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, std::string_view>) {
          append_json(v, out);
        } else {
          fmt::format_to(std::back_inserter(out), "{}", v);
        }
      },
      value);
}

std::string error_body(std::string_view message) {
  std::string printable(message);
  if (!simdjson::validate_utf8(message.data(), message.size())) {
    for (char& c : printable) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  std::string body = "{\"error\":";
  append_json(std::string_view(printable), body);
  body.push_back('}');
  return body;
}

}  // namespace fermata::serve
