#include "policy/tree/parts.h"

#include <algorithm>

#include "policy/tree/service_tree.h"

namespace fermata::policy {

void PartsChooser::arrived(Node& node, Time now, ServiceTree& tree) {
  for (uint32_t first = 0; first < node.items; first += most_) {
    Child& child = node.children.emplace_back();
    child.service = service_;
    child.items = std::min(most_, node.items - first);
    child.due = child.last = node.deadline;
  }
  node.open = static_cast<uint32_t>(node.children.size());
  for (uint32_t c = 0; c < node.open; ++c) tree.start(node, c, now);
}

void PartsChooser::ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) {
  if (how != Ending::kAnswered) {
    return tree.end(node, how, 0, tree.ahead(service_, node.children[child].items, now));
  }
  node.made += node.children[child].made;
  if (--node.open == 0) tree.end(node, Ending::kAnswered, node.made);
}

Ahead PartsChooser::ahead(uint32_t items, Time now, const ServiceTree& tree) const {
  return tree.ahead(service_, std::min(items, most_), now);
}

}  // namespace fermata::policy
