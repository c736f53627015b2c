#include "hand.h"

namespace fermata::policy {
namespace {

// Requests that can wait for far longer than is usual, of a model that runs for 10 + 5 b ms, beside
// a model whose requests come all the time.
class Patience : public testing::Test {
 protected:
  Patience() {
    for (double ms = 0; ms < 100; ms += 10) {
      hand_.arrive(other_, ms, 1000);
      hand_.tick(ms);
    }
    hand_.out.clear();
  }
  // The size of the first batch of those that wait for it, with what each may wait.
  uint32_t first_batch(int requests, double timeout_ms) {
    for (int i = 0; i < requests; ++i) hand_.arrive(slow_, 100, timeout_ms);
    hand_.worker(100);
    for (double ms = 100; ms < 900; ms += 1) {
      for (const Batch& bound : hand_.out.bound) {
        if (bound.key == slow_) return bound.items;
      }
      if (!hand_.out.bound.empty()) {
        hand_.out.clear();
        hand_.freed(WorkerId(0), ms);
      }
      hand_.tick(ms);
    }
    return 0;
  }

  Hand hand_{"fermata"};
  const KeyId other_ = hand_.key(0.1, 0.9, 1000);
  const KeyId slow_ = hand_.key(5, 10, 1000);
};

// (10 + 5 b)² / b is least at 2.
TEST_F(Patience, RunsInBatchesThatMakeOthersWaitLeast) {
  EXPECT_EQ(first_batch(300, 1'000'000), 2u);
}

TEST_F(Patience, IsLostWhereSmallBatchesWouldBeLate) {
  // 600 requests in batches of 2 take 6 s, twice which is more than they have.
  EXPECT_EQ(first_batch(600, 5'000), 64u);
}

TEST_F(Patience, IsNotOfThoseWhoWaitAsLongAsIsUsual) { EXPECT_GT(first_batch(30, 1'000), 20u); }

TEST(PatienceAlone, RunsInTheLargestBatches) {
  Hand hand("fermata");
  const KeyId slow = hand.key(5, 10, 1000);
  for (int i = 0; i < 300; ++i) hand.arrive(slow, 0, 1'000'000);
  hand.worker(0);
  hand.tick(0);
  EXPECT_EQ(hand.batch().items, 64u);
}

}  // namespace
}  // namespace fermata::policy
