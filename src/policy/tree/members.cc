#include "policy/tree/members.h"

namespace fermata::policy {

void add_members(Node& node, const std::vector<ServiceId>& members, Time due) {
  for (const ServiceId member : members) {
    Child& child = node.children.emplace_back();
    child.service = member;
    child.items = node.items;
    child.due = child.last = due;
  }
}

Ahead fastest_ahead(const std::vector<ServiceId>& members, uint32_t items, Time now,
                    const Branches& tree) {
  Ahead least = tree.ahead(members[0], items, now);
  for (const ServiceId member : members) {
    const Ahead own = tree.ahead(member, items, now);
    if (own.total() < least.total()) least = own;
  }
  return least;
}

}  // namespace fermata::policy
