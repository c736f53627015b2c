#pragma once

#include <optional>
#include <string_view>

#include "base/time.h"

namespace fermata::load {

// How long before its last moment a request was rejected: what was left of its
// budget less its run time and the delay allowed for, from what a deadline rejection says.
// Negative: rejected when it was lost already. None where the text says neither, or where the whole
// budget was shorter than these.
std::optional<Duration> rejection_margin(std::string_view text);

}  // namespace fermata::load
