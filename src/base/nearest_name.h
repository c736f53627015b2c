#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace fermata {

// The name that was probably meant: of those that differ by at most a third of its letters, and at
// most three, the one that differs least. O(names times letters squared) for texts up to 64 bytes,
// of longer ones none.
std::optional<std::string_view> nearest_name(std::string_view text,
                                             const std::vector<std::string_view>& names);

}  // namespace fermata
