#include "policy/batch/window.h"

#include <algorithm>

namespace fermata::policy {
namespace {

// The first task from which on all the rest ends by that task's deadline; the
// size of the queue if there is none. Monotone: later tasks have later deadlines
// and fewer behind them.
size_t first_whole_rest(const TaskQueue& queue, const BatchTimes& times, const Moment& m) {
  return queue.first(
      0, [&](const Task& task, uint64_t items) { return times.finish(items, m) <= task.deadline; });
}

size_t take_from(size_t first, const TaskQueue& queue, const BatchTimes& times, const Moment& m) {
  if (first == queue.size()) return 0;
  return queue.most_within(first, times.largest(queue[first].deadline, m));
}

}  // namespace

uint32_t target_size(const BatchTimes& times, const estimate::RateMeter& rate, Duration budget) {
  const bool known = rate.known() && rate.per_second() > 0;
  const double lambda = rate.per_second();
  uint32_t best = 1;
  for (uint32_t b = 2; b <= times.max_batch(); ++b) {
    const double run = times.run(b).seconds(), left = (budget - times.delay(b)).seconds();
    if (run > left) break;
    const double n = lambda * run / b;
    const double wait = !known ? run : n > 1 ? run / n : b / lambda;
    if (run + wait <= left) best = b;
  }
  return best;
}

Duration fixed_cost(const BatchTimes& times, uint32_t target) {
  const uint32_t b = std::max(target, 2u);
  return times.run(1) - (times.run(b) - times.run(1)) / (b - 1);
}

Cut window_cut(const TaskQueue& queue, const BatchTimes& times, uint32_t target, const Moment& m) {
  const size_t passed = first_whole_rest(queue, times, m);
  const uint64_t size = std::min<uint64_t>(target, queue.items_from(passed));
  size_t drop = 0;
  while (drop < passed &&
         queue[drop].deadline < times.finish(std::max<uint64_t>(size, queue[drop].items), m)) {
    ++drop;
  }
  return {drop, take_from(drop, queue, times, m)};
}

Cut prefix_cut(const TaskQueue& queue, const BatchTimes& times, const Moment& m) {
  size_t drop = 0;
  while (drop < queue.size() && queue[drop].deadline < times.finish(queue[drop].items, m)) ++drop;
  return {drop, take_from(drop, queue, times, m)};
}

}  // namespace fermata::policy
