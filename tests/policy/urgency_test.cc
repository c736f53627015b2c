#include "hand.h"

namespace fermata::policy {
namespace {

// What every policy keeps, whatever else it decides. ℓ(b) = b + 5 ms.
class EveryPolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryPolicy, TakesTheEarlierDeadlineFirstThoughItCameLater) {
  Hand hand(GetParam());
  const KeyId key = hand.key(1, 5, 50, 1);  // does not batch
  const Task long_one = hand.arrive(key, 0, 50);
  const Task short_one = hand.arrive(key, 1, 20);
  hand.worker(2);
  for (double ms = 2; hand.out.bound.empty() && ms < 60; ms += 1) hand.tick(ms);
  EXPECT_EQ(hand.batch().tasks[0].job, short_one.job);
  EXPECT_EQ(hand.scheduler->waiting_items(key), long_one.items);
}

TEST_P(EveryPolicy, AWithdrawnTaskIsGone) {
  Hand hand(GetParam());
  const KeyId key = hand.key(1, 5, 50);
  const Task task = hand.arrive(key, 0, 50, 3);
  EXPECT_EQ(hand.scheduler->waiting_items(key), 3u);
  EXPECT_TRUE(hand.scheduler->withdraw(task, at_ms(1), hand.out));
  EXPECT_FALSE(hand.scheduler->withdraw(task, at_ms(1), hand.out));
  EXPECT_EQ(hand.scheduler->waiting_items(key), 0u);
  hand.worker(2);
  hand.tick(60);
  EXPECT_TRUE(hand.quiet());
}

TEST_P(EveryPolicy, WithoutDeadlineATaskRunsWhenAWorkerIsIdle) {
  Hand hand(GetParam());
  const KeyId key = hand.key(1, 5, 50);
  hand.worker();
  hand.arrive_best_effort(key, 0, 2);
  EXPECT_EQ(hand.batch().items, 2u);
  hand.arrive_best_effort(key, 1);
  hand.arrive_best_effort(key, 1);
  hand.freed(WorkerId(0), 7);
  EXPECT_EQ(hand.batch().items, 2u);
}

TEST_P(EveryPolicy, NeverExceedsTheLargestBatch) {
  Hand hand(GetParam());
  const KeyId key = hand.key(1, 5, 500, 4);
  for (int i = 0; i < 5; ++i) hand.arrive(key, 0, 500, 2);
  hand.worker(0);
  hand.tick(400);
  EXPECT_EQ(hand.batch().items, 4u);
}

TEST_P(EveryPolicy, RefusesNoLaterThanTheLastMomentAlone) {
  Hand hand(GetParam());
  const KeyId key = hand.key(1, 5, 20);
  // No worker at all. ℓ(3) = 8, ℓ(1) = 6: the larger task is infeasible first,
  // though its deadline is later.
  const Task small = hand.arrive(key, 0, 20);
  const Task large = hand.arrive(key, 0, 21, 3);
  hand.out.clear();
  hand.tick(13.000001);
  ASSERT_GE(hand.out.dropped.size(), 1u);
  EXPECT_TRUE(hand.out.dropped[0].task.job == large.job || hand.out.dropped.size() == 2);
  hand.tick(14.000001);
  EXPECT_EQ(hand.out.dropped.size(), 2u);
  EXPECT_TRUE(hand.scheduler->next_wake().is_infinite());
  (void)small;
}

TEST_P(EveryPolicy, FollowsANewLatency) {
  Hand hand(GetParam());
  const KeyId key = hand.key(1, 5, 20);
  hand.arrive(key, 0, 20);
  // Now ℓ(1) = 25 ms: it cannot make 20 any more.
  hand.scheduler->update_latency(key, linear(1, 24), at_ms(1), hand.out);
  EXPECT_EQ(hand.out.dropped.size(), 1u);
  EXPECT_EQ(hand.scheduler->waiting_items(key), 0u);
}

TEST_P(EveryPolicy, KeysMayComeWhileOthersRun) {
  Hand hand(GetParam());
  const KeyId first = hand.key(1, 5, 7);
  hand.worker();
  hand.arrive(first, 0, 7);
  EXPECT_EQ(hand.batch().key, first);
  const KeyId second = hand.key(1, 5, 12);
  hand.arrive(second, 3, 13);  // latest start 16 - 6 = 10
  hand.freed(WorkerId(0), 6);
  for (double ms = 6; hand.out.bound.empty() && ms <= 10; ms += 0.5) hand.tick(ms);
  EXPECT_EQ(hand.batch().key, second);
  hand.scheduler->remove_key(first);
  hand.freed(WorkerId(0), 20);
  const KeyId third = hand.key(1, 5, 7);  // perhaps under the id of the first
  hand.arrive(third, 21, 7);
  for (double ms = 21; hand.out.bound.empty() && ms <= 22; ms += 0.5) hand.tick(ms);
  EXPECT_EQ(hand.batch().key, third);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, testing::ValuesIn(scheduler_names()), test_name);

}  // namespace
}  // namespace fermata::policy
