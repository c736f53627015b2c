#pragma once

#include <cstdint>
#include <vector>

#include "policy/types.h"

namespace fermata::policy {

// The waiting tasks of one key, by deadline; equal deadlines keep their order of
// arrival. A ring that grows to its largest size and then allocates no more.
// Appending (deadlines in order, the common case) and taking from the front are
// O(1); a task that comes between others moves those behind it.
class TaskQueue {
 public:
  TaskQueue() : slots_(16) {}

  void insert(const Task& task);
  // The task of this job and deadline; false when it is not here.
  // O(log n + tasks of that deadline + tasks behind it).
  bool erase(const Task& task);
  void erase_at(size_t i);
  void pop_front() { ++front_; }

  bool empty() const { return front_ == back_; }
  size_t size() const { return back_ - front_; }
  const Task& operator[](size_t i) const { return slot(i).task; }
  // Items of the tasks from i on, and of the n tasks from i on. O(1).
  uint64_t items_from(size_t i) const { return items_before(size()) - items_before(i); }
  uint64_t items(size_t i, size_t n) const { return items_before(i + n) - items_before(i); }
  // The most tasks from i on that hold together at most so many items. O(log n).
  size_t most_within(size_t i, uint64_t items) const;

 private:
  struct Slot {
    Task task;
    uint64_t before = 0;  // items that ever stood before this one: a running total
  };
  Slot& slot(size_t i) { return slots_[(front_ + i) & (slots_.size() - 1)]; }
  const Slot& slot(size_t i) const { return slots_[(front_ + i) & (slots_.size() - 1)]; }
  uint64_t items_before(size_t i) const { return i < size() ? slot(i).before : total_; }
  void grow();

  std::vector<Slot> slots_;  // a power of two of them
  size_t front_ = 0, back_ = 0;
  uint64_t total_ = 0;
};

}  // namespace fermata::policy
