#include "hand.h"

namespace fermata::policy {
namespace {

// ℓ(b) = b + 5 ms throughout, so ℓ(1..4) = 6, 7, 8, 9.

TEST(Deferred, HoldsABatchUntilItsLatestStart) {
  Hand hand("deferred");
  const KeyId key = hand.key(1, 5, 12);
  const WorkerId worker = hand.worker();
  // Deadline 12: one more would need ℓ(2) = 7, so hold until 12 - 7 = 5.
  hand.arrive(key, 0, 12);
  EXPECT_DOUBLE_EQ(hand.wake_ms(), 5);
  // Two: 12 - ℓ(3) = 4. Three: 12 - ℓ(4) = 3.
  hand.arrive(key, 1, 12);
  EXPECT_DOUBLE_EQ(hand.wake_ms(), 4);
  hand.arrive(key, 2, 12);
  EXPECT_DOUBLE_EQ(hand.wake_ms(), 3);
  EXPECT_TRUE(hand.quiet());
  hand.tick(3);
  const Batch batch = hand.batch();
  EXPECT_EQ(batch.worker, worker);
  EXPECT_EQ(batch.items, 3u);
  EXPECT_EQ(batch.start, at_ms(3));
  EXPECT_EQ(batch.finish, at_ms(11));  // 3 + ℓ(3)
}

TEST(Deferred, RefusesWhenNotEvenAloneAndSaysWhy) {
  Hand hand("deferred");
  const KeyId key = hand.key(1, 5, 12);
  hand.worker();
  hand.arrive(key, 0, 12);
  hand.tick(5);
  EXPECT_EQ(hand.batch().finish, at_ms(11));
  // Deadline 16.5: last moment alone is 16.5 - ℓ(1) = 10.5, before the worker is free.
  const Task late = hand.arrive(key, 4.5, 12);
  hand.tick(10.5);
  EXPECT_TRUE(hand.quiet());
  hand.tick(10.500001);
  ASSERT_EQ(hand.out.dropped.size(), 1u);
  EXPECT_EQ(hand.out.dropped[0].task.job, late.job);
  EXPECT_NEAR(hand.out.dropped[0].wait.millis(), 0.5, 1e-4);  // until 11
  EXPECT_DOUBLE_EQ(hand.out.dropped[0].run.millis(), 6);
}

TEST(Deferred, AFreedWorkerTakesWhatIsMostUrgent) {
  Hand hand("deferred");
  const KeyId a = hand.key(1, 5, 30), b = hand.key(1, 5, 30);
  const WorkerId worker = hand.worker();
  hand.arrive(a, 0, 8);  // due at 8 - 7 = 1
  hand.tick(1);
  EXPECT_EQ(hand.batch().key, a);  // until 7
  hand.arrive(a, 2, 13);           // latest start 15 - 6 = 9
  hand.arrive(b, 2, 12);           // latest start 14 - 6 = 8: more urgent
  // Both want to start at 15 - 7 = 8 and 14 - 7 = 7; the worker ends late, at 8.
  hand.tick(7);
  hand.tick(8);
  EXPECT_TRUE(hand.quiet());
  hand.freed(worker, 8);
  EXPECT_EQ(hand.batch().key, b);
}

TEST(Deferred, OfSeveralIdleWorkersTheFirstIsTaken) {
  Hand hand("deferred");
  const KeyId key = hand.key(1, 5, 12);
  hand.worker();
  hand.worker();
  hand.arrive(key, 0, 7);  // 7 - ℓ(2) = 0: at once
  EXPECT_EQ(hand.batch().worker, WorkerId(0));
  hand.arrive(key, 0, 7);
  EXPECT_EQ(hand.batch().worker, WorkerId(1));
  hand.freed(WorkerId(1), 6);
  hand.freed(WorkerId(0), 6);
  hand.arrive(key, 6, 7);
  EXPECT_EQ(hand.batch().worker, WorkerId(0));
}

TEST(Deferred, DelaysBringTheDecisionForward) {
  Hand hand("deferred");
  hand.scheduler->set_delay_bound({Duration::millis(1), Duration::from_millis(0.25)});
  const KeyId key = hand.key(1, 5, 20);
  const WorkerId worker = hand.worker();
  // Start at 20 - ℓ(2) = 13; decide d(1) = 1.25 before that.
  hand.arrive(key, 0, 20);
  EXPECT_DOUBLE_EQ(hand.wake_ms(), 11.75);
  hand.tick(11.75);
  const Batch batch = hand.batch();
  EXPECT_EQ(batch.start, at_ms(13));
  EXPECT_EQ(batch.finish, at_ms(19));
  // The next is bound ahead, its data travelling while the worker still runs:
  // due from 25.25 - 7 - 1.25 = 17 on, bound at 19 - 1.25 = 17.75 to start at 19.
  hand.arrive(key, 12, 13.25);
  hand.tick(17);
  EXPECT_TRUE(hand.quiet());
  EXPECT_DOUBLE_EQ(hand.wake_ms(), 17.75);
  hand.tick(17.75);
  EXPECT_EQ(hand.batch().start, at_ms(19));
  hand.freed(worker, 19);
}

}  // namespace
}  // namespace fermata::policy
