#include "serve/json/json_weight.h"

#include <algorithm>

namespace fermata::serve {
namespace {

// As many as the text has values, or more.
size_t marks(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (c == ',') | (c == ':') | (c == '[') | (c == '{');
  }));
}

// As many as there are places besides marks of which simdjson keeps the position, or more, whether
// the text is JSON or not: quotes, ends of lists and objects, and what follows a blank. Of control
// characters some are marks to it.
size_t places(std::string_view text) {
  return 1 + static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
           return (c == '"') | (c == ']') | (c == '}') | (static_cast<unsigned char>(c) <= ' ');
         }));
}

}  // namespace

size_t infer_json_weight(std::string_view text) {
  constexpr size_t kByte = 2, kMark = 34;  // measured with numbers and texts of one byte and more
  constexpr size_t kPlace = 4;
  return kByte * text.size() + kMark * marks(text) + kPlace * places(text);
}

size_t document_json_weight(std::string_view text) {
  constexpr size_t kByte = 3, kMark = 70;
  return kByte * text.size() + kMark * marks(text);
}

}  // namespace fermata::serve
