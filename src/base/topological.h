#pragma once

#include <cstdint>
#include <vector>

namespace fermata {

// An order of nodes in which each comes after those that it names.
struct TopologicalOrder {
  std::vector<uint32_t> order;  // all of them; empty where there is a cycle
  std::vector<uint32_t> cycle;  // one, each named by the next and the last by the first
};

// before[n]: what has to come before node n. Of several that may come next the first. O(nodes +
// names), no recursion.
TopologicalOrder topological_order(const std::vector<std::vector<uint32_t>>& before);

}  // namespace fermata
