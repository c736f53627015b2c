#pragma once

#include <string>
#include <string_view>

#include "serve/call/infer_call.h"

namespace fermata::serve {

// Append JSON to `out`. Text that is not UTF-8 is the caller's to refuse.
void append_json(std::string_view text, std::string& out);  // quoted and escaped
void append_json(const ParameterValue& value, std::string& out);

std::string error_body(std::string_view message);  // {"error":"..."}; always valid UTF-8

}  // namespace fermata::serve
