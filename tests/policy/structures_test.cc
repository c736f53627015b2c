#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "hand.h"
#include "policy/batch/min_tree.h"
#include "policy/batch/task_queue.h"
#include "policy/batch/window.h"

namespace fermata::policy {
namespace {

// Each structure against what anyone would write first.

TEST(MinTree, AgreesWithALinearScan) {
  Random random(1);
  MinTree tree;
  std::vector<Time> naive;
  for (int step = 0; step < 20'000; ++step) {
    if (naive.size() < 70 && random.below(100) == 0) {
      naive.push_back(Time::infinite());
      tree.resize(naive.size());
    }
    if (naive.empty()) continue;
    const size_t i = random.below(naive.size());
    naive[i] = random.below(4) == 0 ? Time::infinite()
                                    : Time::from_nanos(static_cast<int64_t>(random.below(50)));
    tree.set(i, naive[i]);
    const auto least = std::min_element(naive.begin(), naive.end());
    ASSERT_EQ(tree.top(), *least);
    ASSERT_EQ(tree.top_index(), static_cast<size_t>(least - naive.begin()));
  }
}

TEST(MinTree, VisitsWhatIsBeforeInEitherOfTwo) {
  Random random(2);
  for (int step = 0; step < 2000; ++step) {
    const size_t n = 1 + random.below(40);
    MinTree here, there;
    std::vector<size_t> expected, visited;
    const auto at = [&random] { return Time::from_nanos(static_cast<int64_t>(random.below(20))); };
    const Time before_here = at(), before_there = at();
    here.resize(n);
    there.resize(n);
    for (size_t i = 0; i < n; ++i) {
      if (random.below(3) > 0) here.set(i, at());
      if (random.below(3) > 0) there.set(i, at());
      if (here[i] < before_here || there[i] < before_there) expected.push_back(i);
    }
    here.each_before(before_here, there, before_there, [&](size_t i) { visited.push_back(i); });
    ASSERT_EQ(visited, expected);
  }
}

void expect_same(const TaskQueue& queue, const std::vector<Task>& naive) {
  ASSERT_EQ(queue.size(), naive.size());
  uint64_t items = 0;
  for (size_t i = naive.size(); i > 0; --i) {
    ASSERT_EQ(queue[i - 1].job, naive[i - 1].job);
    items += naive[i - 1].items;
    ASSERT_EQ(queue.items_from(i - 1), items);
  }
}

// Deadlines are up to `spread` out of order; in turns more tasks come than go and the other way
// round.
void compare_with_a_sorted_vector(uint64_t spread) {
  Random random(2);
  TaskQueue queue;
  std::vector<Task> naive;
  for (uint64_t step = 0; step < 10'000; ++step) {
    const bool more_come = step / 400 % 2 == 0;
    const uint64_t action = random.below(10);
    if (action < (more_come ? 7 : 3)) {
      const Task task{JobId(step), KeyId(0), Time(),
                      Time::from_nanos(static_cast<int64_t>(step / 4 + random.below(spread))),
                      1 + static_cast<uint32_t>(random.below(4))};
      queue.insert(task);
      naive.insert(
          std::upper_bound(naive.begin(), naive.end(), task,
                           [](const Task& a, const Task& b) { return a.deadline < b.deadline; }),
          task);
    } else if (!naive.empty() && action < 8) {
      queue.pop_front();
      naive.erase(naive.begin());
    } else if (!naive.empty()) {
      const size_t i = random.below(naive.size());
      ASSERT_TRUE(queue.erase(naive[i]));
      ASSERT_FALSE(queue.erase(naive[i]));
      naive.erase(naive.begin() + static_cast<std::ptrdiff_t>(i));
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(queue, naive));
    const uint64_t limit = random.below(30);
    size_t n = 0;
    for (uint64_t sum = 0; n < naive.size() && (sum += naive[n].items) <= limit;) ++n;
    ASSERT_EQ(queue.most_within(0, limit), n);
  }
}

TEST(TaskQueue, AgreesWithASortedVector) { compare_with_a_sorted_vector(20); }
TEST(TaskQueue, AgreesWithASortedVectorWhenLongAndOutOfOrder) {
  compare_with_a_sorted_vector(2'000);
}

// window.h, word for word, by linear scans.
Cut naive_window(const TaskQueue& queue, const BatchTimes& times, uint32_t target,
                 const Moment& m) {
  size_t passed = 0;
  while (passed < queue.size() &&
         times.finish(queue.items_from(passed), m) > queue[passed].deadline)
    ++passed;
  const uint64_t size = std::min<uint64_t>(target, queue.items_from(passed));
  size_t drop = 0;
  while (drop < passed &&
         queue[drop].deadline < times.finish(std::max<uint64_t>(size, queue[drop].items), m))
    ++drop;
  size_t take = 0;
  for (uint64_t sum = 0; drop + take < queue.size(); ++take) {
    sum += queue[drop + take].items;
    if (sum > times.max_batch() || times.finish(sum, m) > queue[drop].deadline) break;
  }
  return {drop, take};
}

TEST(Window, AgreesWithTheRuleReadLiterally) {
  Random random(3);
  for (int round = 0; round < 3000; ++round) {
    const BatchTimes times(linear(0.5 + random.uniform(), 5 * random.uniform(),
                                  1 + static_cast<uint32_t>(random.below(30))),
                           {Duration::micros(static_cast<int64_t>(random.below(500))),
                            Duration::micros(static_cast<int64_t>(random.below(50)))});
    const Moment m{at_ms(10), at_ms(10 + 3 * random.uniform())};
    TaskQueue queue;
    const uint64_t n = 1 + random.below(60);
    for (uint64_t i = 0; i < n; ++i) {
      const uint32_t items =
          random.below(4) == 0
              ? 1 + static_cast<uint32_t>(random.below(std::min(3u, times.max_batch())))
              : 1;
      queue.insert({JobId(i), KeyId(0), Time(), at_ms(10 + 40 * random.uniform()), items});
    }
    const uint32_t target = 1 + static_cast<uint32_t>(random.below(20));
    const Cut cut = window_cut(queue, times, target, m),
              naive = naive_window(queue, times, target, m);
    ASSERT_EQ(cut.drop, naive.drop) << round;
    ASSERT_EQ(cut.take, naive.take) << round;
  }
}

TEST(TargetSize, IsThatOfStaggeredExecution) {
  // Symphony Table 4: ResNet50, SLO 25, as many requests as keep 8 workers busy
  // at b = 16: n = λ·ℓ(16)/16 = 8.
  const BatchTimes times(linear(1.053, 5.072), {});
  estimate::RateMeter rate;
  const double lambda = 8 * 16 / 21.92e-3;  // 5839/s
  for (int i = 0; i < 5839; ++i) rate.count(Time() + Duration::from_seconds(i / lambda), 1);
  EXPECT_EQ(target_size(times, rate, Duration::millis(25)), 16u);
  // Before anything is known: what fits twice, ⌊(25/2 - 5.072)/1.053⌋ = 7.
  EXPECT_EQ(target_size(times, estimate::RateMeter(), Duration::millis(25)), 7u);
}

}  // namespace
}  // namespace fermata::policy
