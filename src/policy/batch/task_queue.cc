#include "policy/batch/task_queue.h"

#include <utility>

namespace fermata::policy {
namespace {

constexpr size_t kManyToMove = 64, kFew = 16;

}  // namespace

void TaskQueue::insert_far(const Task& task) {
  if (!in_tree_) {
    if (size() == slots_.size()) grow();
    if (empty() || !before(task, slot(size() - 1).task)) return append(task);
    if (size() <= kManyToMove || !before(task, slot(size() - kManyToMove).task)) {
      append(task);
      size_t i = size() - 1;
      for (; i > 0 && before(task, slot(i - 1).task); --i) {
        slot(i) = slot(i - 1);
        slot(i).before += task.items;
      }
      slot(i) = {task, slot(i + 1).before - task.items};
      return;
    }
    into_tree();
  }
  tree_.insert(task);
  total_ += task.items;
  ++back_;
}

bool TaskQueue::erase(const Task& task) {
  const size_t i = first(0, [&](const Task& other, uint64_t) { return !before(other, task); });
  if (i == size() || before(task, (*this)[i])) return false;
  erase_at(i);
  return true;
}

void TaskQueue::erase_at(size_t i) {
  if (!in_tree_ && i == 0) return pop_front();
  if (!in_tree_ && size() - i > kManyToMove) into_tree();
  const uint32_t items = (*this)[i].items;
  total_ -= items;
  if (in_tree_) {
    tree_.erase_at(i);
    --back_;
    if (size() <= kFew) into_ring();
    return;
  }
  for (; i + 1 < size(); ++i) {
    slot(i) = slot(i + 1);
    slot(i).before -= items;
  }
  --back_;
}

size_t TaskQueue::most_within(size_t i, uint64_t items) const {
  const uint64_t all = items_from(i);
  if (all <= items) return size() - i;
  return first(i, [&](const Task&, uint64_t left) { return all - left > items; }) - 1 - i;
}

void TaskQueue::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  const size_t n = size();
  for (size_t i = 0; i < n; ++i) larger[i] = slot(i);
  slots_ = std::move(larger);
  mask_ = slots_.size() - 1;
  front_ = 0;
  back_ = n;
}

void TaskQueue::into_tree() {
  const size_t n = size();
  total_ = items_from(0);
  for (size_t i = 0; i < n; ++i) tree_.insert(slot(i).task);
  front_ = 0;
  back_ = n;
  in_tree_ = true;
}

void TaskQueue::into_ring() {
  in_tree_ = false;
  front_ = back_ = 0;
  total_ = 0;
  for (; tree_.size() > 0; tree_.erase_at(0)) append(tree_[0]);
}

}  // namespace fermata::policy
