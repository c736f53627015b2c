#include "policy/batch/task_queue.h"

#include <algorithm>

namespace fermata::policy {

void TaskQueue::insert(const Task& task) {
  if (size() == slots_.size()) grow();
  size_t i = size();
  ++back_;
  for (; i > 0 && slot(i - 1).task.deadline > task.deadline; --i) {
    slot(i) = slot(i - 1);
    slot(i).before += task.items;
  }
  slot(i).before = i + 1 < size() ? slot(i + 1).before - task.items : total_;
  slot(i).task = task;
  total_ += task.items;
}

bool TaskQueue::erase(const Task& task) {
  size_t low = 0, high = size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (slot(middle).task.deadline < task.deadline) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < size() && slot(low).task.deadline == task.deadline; ++low) {
    if (slot(low).task.job != task.job) continue;
    erase_at(low);
    return true;
  }
  return false;
}

void TaskQueue::erase_at(size_t i) {
  const uint32_t items = slot(i).task.items;
  for (; i + 1 < size(); ++i) {
    slot(i) = slot(i + 1);
    slot(i).before -= items;
  }
  --back_;
  total_ -= items;
}

size_t TaskQueue::most_within(size_t i, uint64_t items) const {
  size_t low = i, high = size();
  while (low < high) {  // the last end with items_before(end) - items_before(i) <= items
    const size_t middle = (low + high + 1) / 2;
    if (items_before(middle) - items_before(i) <= items) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low - i;
}

void TaskQueue::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  const size_t n = size();
  for (size_t i = 0; i < n; ++i) larger[i] = slot(i);
  slots_ = std::move(larger);
  front_ = 0;
  back_ = n;
}

}  // namespace fermata::policy
