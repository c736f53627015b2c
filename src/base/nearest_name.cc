#include "base/nearest_name.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace fermata {
namespace {

constexpr size_t kLongest = 64, kMostEdits = 3;

// Letters added, left out, replaced, or swapped with the next.
size_t edits(std::string_view a, std::string_view b) {
  std::array<size_t, kLongest + 1> before{}, last{}, row{};
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      row[k] =
          std::min({last[k] + 1, row[k - 1] + 1, last[k - 1] + (a[i - 1] != b[k - 1] ? 1 : 0)});
      const bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (swapped) row[k] = std::min(row[k], before[k - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view text,
                                             const std::vector<std::string_view>& names) {
  std::optional<std::string_view> nearest;
  size_t least = std::min(kMostEdits, std::max<size_t>(text.size() / 3, 1)) + 1;
  for (const std::string_view name : names) {
    const auto [shorter, longer] = std::minmax({text.size(), name.size()});
    if (longer > kLongest || longer - shorter >= least) continue;  // each letter is an edit
    const size_t own = edits(text, name);
    if (own >= least || own >= name.size()) continue;
    least = own;
    nearest = name;
  }
  return nearest;
}

}  // namespace fermata
