#pragma once

#include <cstddef>
#include <string_view>

namespace fermata::serve {

// Upper bounds on what a text takes while it is parsed, known before it is. O(text), and less than
// a byte each in a nanosecond.

// With simdjson: the text again, for each value 16 bytes, two positions and what its tensor has,
// and a position for whatever else may begin or end something.
size_t infer_json_weight(std::string_view text);
// With the checked documents (base/document.h), which keep a value each.
size_t document_json_weight(std::string_view text);

}  // namespace fermata::serve
