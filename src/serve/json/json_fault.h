#pragma once

#include <string>
#include <string_view>

namespace fermata::serve {

// Why a text is not JSON: line, column, what stands there and what was expected. Empty where this
// finds nothing wrong. O(text); for the answer to a request that has failed already.
std::string json_fault(std::string_view text);

}  // namespace fermata::serve
