#pragma once

#include <cstdint>
#include <vector>

#include "policy/batch/task_tree.h"
#include "policy/types.h"

namespace fermata::policy {

// The waiting tasks of one key, by deadline, of equal deadlines by job, which is the order in which
// jobs came. A ring that grows to its largest size and then allocates no more: appending (deadlines
// in order, the common case) and taking from the front are O(1), and a task that comes or goes
// between others moves those behind it. Where these are many, all tasks move into a tree, until few
// are left: there each call is O(log n), finding by items O(log² n).
class TaskQueue {
 public:
  TaskQueue() : slots_(16) {}

  [[gnu::always_inline]] void insert(const Task& task) {
    const bool last = !in_tree_ && (empty() || !before(task, slot(size() - 1).task));
    if (!last || size() == slots_.size()) [[unlikely]]
      return insert_far(task);
    append(task);
  }
  // The task of this job and deadline; false when it is not here.
  bool erase(const Task& task);
  void erase_at(size_t i);
  void pop_front() {
    if (in_tree_) [[unlikely]]
      return erase_at(0);
    ++front_;
  }

  bool empty() const { return front_ == back_; }
  size_t size() const { return back_ - front_; }
  [[gnu::always_inline]] const Task& operator[](size_t i) const {
    if (in_tree_) [[unlikely]]
      return far_task(i);
    return slot(i).task;
  }
  // Items of the tasks from i on, and of the n tasks from i on.
  [[gnu::always_inline]] uint64_t items_from(size_t i) const {
    if (i >= size()) return 0;
    if (in_tree_) [[unlikely]]
      return far_items_from(i);
    return total_ - slot(i).before;
  }
  uint64_t items(size_t i, size_t n) const { return items_from(i) - items_from(i + n); }
  // The first from `low` on for which past(task, items from it on) holds, as for all behind it;
  // else size(). Looks at O(log n) tasks.
  template <class Past>
  size_t first(size_t low, Past past) const {
    if (in_tree_) [[unlikely]] {
      return first_of(low, [&](size_t i) { return past(far_task(i), far_items_from(i)); });
    }
    return first_of(low, [&](size_t i) { return past(slot(i).task, total_ - slot(i).before); });
  }
  // The most tasks from i on that hold together at most so many items.
  size_t most_within(size_t i, uint64_t items) const;

 private:
  struct Slot {
    Task task;
    uint64_t before = 0;  // items that ever stood before this one: a running total
  };
  Slot& slot(size_t i) { return slots_[(front_ + i) & mask_]; }
  const Slot& slot(size_t i) const { return slots_[(front_ + i) & mask_]; }
  // Out of line, so that what is common stays small.
  [[gnu::noinline, gnu::cold]] const Task& far_task(size_t i) const { return tree_[i]; }
  [[gnu::noinline, gnu::cold]] uint64_t far_items_from(size_t i) const {
    return total_ - tree_.items_before(i);
  }
  template <class Past>
  size_t first_of(size_t low, Past past) const {
    for (size_t high = size(); low < high;) {
      const size_t middle = (low + high) / 2;
      if (past(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
  // There is room.
  void append(const Task& task) {
    slots_[back_++ & mask_] = {task, total_};
    total_ += task.items;
  }
  void insert_far(const Task& task);  // it is not the last, or there is no room
  void grow();
  void into_tree();
  void into_ring();

  std::vector<Slot> slots_;  // a power of two of them
  size_t mask_ = slots_.size() - 1;
  size_t front_ = 0, back_ = 0;
  uint64_t total_ = 0;  // in the tree: of what is there
  TaskTree tree_;
  bool in_tree_ = false;
};

}  // namespace fermata::policy
