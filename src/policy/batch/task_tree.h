#pragma once

#include <cstdint>
#include <vector>

#include "policy/types.h"

namespace fermata::policy {

// By deadline, of equal deadlines by job.
inline bool before(const Task& a, const Task& b) {
  return a.deadline < b.deadline || (a.deadline == b.deadline && a.job < b.job);
}

// Tasks in this order, for queues too long to move their tasks about. A treap: each node
// stands for the tasks below it too, by number and items.
// Every call is O(log n), in expectation over priorities, which are hashes by a seed of the
// process's own: nobody outside can choose deadlines by them. No result depends on them.
class TaskTree {
 public:
  TaskTree() : nodes_(1) {}

  void insert(const Task& task);
  void erase_at(size_t i) { erase_at(root_, i); }

  size_t size() const { return nodes_[root_].count; }
  const Task& operator[](size_t i) const;
  uint64_t items_before(size_t i) const;  // of the first i tasks

 private:
  struct Node {
    Task task;
    uint64_t items = 0, priority = 0;  // nodes_[0] stands for none: no items, no tasks
    uint32_t count = 0, left = 0, right = 0;
  };
  void insert(uint32_t& at, uint32_t node);
  void erase_at(uint32_t& at, size_t i);
  void take_out(uint32_t& at);
  uint32_t joined(uint32_t left, uint32_t right);
  void count(uint32_t at);

  std::vector<Node> nodes_;
  std::vector<uint32_t> free_;
  uint32_t root_ = 0;
  uint64_t inserted_ = 0;
};

}  // namespace fermata::policy
