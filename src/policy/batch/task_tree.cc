#include "policy/batch/task_tree.h"

#include "absl/hash/hash.h"

namespace fermata::policy {

void TaskTree::count(uint32_t at) {
  Node& node = nodes_[at];
  const Node &left = nodes_[node.left], &right = nodes_[node.right];
  node.count = left.count + 1 + right.count;
  node.items = left.items + node.task.items + right.items;
}

void TaskTree::insert(const Task& task) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.emplace_back();
  }
  const uint32_t node = free_.back();
  free_.pop_back();
  nodes_[node] = {
      .task = task, .items = task.items, .priority = absl::HashOf(++inserted_), .count = 1};
  insert(root_, node);
}

void TaskTree::insert(uint32_t& at, uint32_t node) {
  if (at == 0) {
    at = node;
    return;
  }
  const uint32_t top = at;
  const bool left = before(nodes_[node].task, nodes_[top].task);
  uint32_t& below = left ? nodes_[top].left : nodes_[top].right;
  insert(below, node);
  const uint32_t child = below;
  if (nodes_[child].priority >
      nodes_[top].priority) {  // it moves up, what was between changes side
    uint32_t& between = left ? nodes_[child].right : nodes_[child].left;
    below = between;
    between = top;
    count(top);
    at = child;
  }
  count(at);
}

void TaskTree::erase_at(uint32_t& at, size_t i) {
  Node& node = nodes_[at];
  const size_t before = nodes_[node.left].count;
  if (i == before) return take_out(at);
  i < before ? erase_at(node.left, i) : erase_at(node.right, i - before - 1);
  count(at);
}

void TaskTree::take_out(uint32_t& at) {
  free_.push_back(at);
  at = joined(nodes_[at].left, nodes_[at].right);
}

// Of two trees, all of `left` before all of `right`.
uint32_t TaskTree::joined(uint32_t left, uint32_t right) {
  if (left == 0 || right == 0) return left + right;
  const bool under_left = nodes_[left].priority > nodes_[right].priority;
  const uint32_t top = under_left ? left : right;
  if (under_left) {
    nodes_[left].right = joined(nodes_[left].right, right);
  } else {
    nodes_[right].left = joined(left, nodes_[right].left);
  }
  count(top);
  return top;
}

const Task& TaskTree::operator[](size_t i) const {
  for (uint32_t at = root_;;) {
    const Node& node = nodes_[at];
    const size_t before = nodes_[node.left].count;
    if (i == before) return node.task;
    at = i < before ? node.left : node.right;
    if (i > before) i -= before + 1;
  }
}

uint64_t TaskTree::items_before(size_t i) const {
  uint64_t items = 0;
  for (uint32_t at = root_; i > 0;) {
    const Node& node = nodes_[at];
    const Node& left = nodes_[node.left];
    if (i <= left.count) {
      at = node.left;
    } else {
      items += left.items + node.task.items;
      i -= left.count + 1;
      at = node.right;
    }
  }
  return items;
}

}  // namespace fermata::policy
