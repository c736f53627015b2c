#include "base/topological.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace fermata {
namespace {

// Among nodes each of which names another that is left.
std::vector<uint32_t> find_cycle(const std::vector<std::vector<uint32_t>>& before,
                                 const std::vector<uint32_t>& missing) {
  std::vector<uint32_t> path;
  std::vector<bool> seen(before.size());
  uint32_t at = 0;
  while (missing[at] == 0) ++at;
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    at = *std::find_if(before[at].begin(), before[at].end(),
                       [&](uint32_t b) { return missing[b] > 0; });
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

TopologicalOrder topological_order(const std::vector<std::vector<uint32_t>>& before) {
  std::vector<uint32_t> missing(before.size());  // that have not come yet
  std::vector<std::vector<uint32_t>> behind(before.size());
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> next;
  for (uint32_t n = 0; n < before.size(); ++n) {
    missing[n] = static_cast<uint32_t>(before[n].size());
    for (const uint32_t b : before[n]) behind[b].push_back(n);
    if (missing[n] == 0) next.push(n);
  }
  TopologicalOrder found;
  while (!next.empty()) {
    const uint32_t n = next.top();
    next.pop();
    found.order.push_back(n);
    for (const uint32_t other : behind[n]) {
      if (--missing[other] == 0) next.push(other);
    }
  }
  if (found.order.size() == before.size()) return found;
  return {{}, find_cycle(before, missing)};
}

}  // namespace fermata
