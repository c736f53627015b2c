#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace fermata::policy {

// Plays workers forward: whichever is free first, the earlier of several, has its turn at that
// moment. `turn`, called with its place and the moment, says when it is free again: after a batch,
// at the next arrival, or never, which ends it. Ends when nobody is free any more.
template <class Turn>
void play_forward(std::vector<Time>& free_at, Turn turn) {
  while (true) {
    const auto first = std::min_element(free_at.begin(), free_at.end());
    if (first == free_at.end() || first->is_infinite()) return;
    *first = turn(static_cast<uint32_t>(first - free_at.begin()), *first);
  }
}

}  // namespace fermata::policy
