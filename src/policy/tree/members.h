#pragma once

#include <vector>

#include "policy/tree/chooser.h"

namespace fermata::policy {

// What the choosers of one and of some of several services have alike.

// Gives a node that has just come a child for each of them, with all its items, due by `due`.
void add_members(Node& node, const std::vector<ServiceId>& members, Time due);

// Of the fastest of at least one: before that no answer can come. O(members).
Ahead fastest_ahead(const std::vector<ServiceId>& members, uint32_t items, Time now,
                    const Branches& tree);

}  // namespace fermata::policy
