#include "policy/pool/pool_ranker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fermata::policy {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Time at(int64_t ms) { return Time() + Duration::millis(ms); }

Offer due_at(KeyId key, uint64_t epoch, int64_t ms) {
  Offer offer{key};
  offer.items = 1;
  offer.epoch = epoch;
  offer.start_at = at(ms);
  offer.urgency = at(ms);
  return offer;
}

// Decisions are made 1 ms ahead, so the second batch is bound at 9 ms, to start at
// 10 ms and end at 20 ms. The first ends at 15 ms instead of 10 ms; the second then
// ends at 25 ms, and the third is bound at 24 ms.
TEST(PoolRanker, WhatWasBoundAheadStartsAsLateAsTheOneBeforeItEnded) {
  PoolRanker ranker;
  const KeyId key(0);
  const WorkerId worker(0);
  std::vector<Grant> grants;
  ranker.set_delay_bound({.control = Duration::millis(1)});
  ranker.add_key(key);
  ranker.add_worker(worker, 0, kUnlimitedMemory, at(0), grants);

  ranker.offered(due_at(key, 0, 0), at(0), grants);
  ASSERT_THAT(grants, SizeIs(1));
  ranker.answered({worker, true, at(10)}, at(0), grants);

  ranker.offered(due_at(key, 1, 1), at(1), grants);
  EXPECT_THAT(grants, SizeIs(1));
  EXPECT_EQ(ranker.next_wake(), at(9));
  ranker.tick(at(9), grants);
  ASSERT_THAT(grants, SizeIs(2));
  EXPECT_EQ(grants[1].free_at, at(10));
  ranker.answered({worker, true, at(20)}, at(9), grants);

  ranker.freed(worker, at(15), grants);
  ranker.offered(due_at(key, 2, 15), at(15), grants);
  EXPECT_THAT(grants, SizeIs(2));
  EXPECT_EQ(ranker.next_wake(), at(24));
  ranker.tick(at(24), grants);
  ASSERT_THAT(grants, SizeIs(3));
  EXPECT_EQ(grants[2].free_at, at(25));
}

// A worker that is late has no known end: nothing is bound ahead of it.
TEST(PoolRanker, WaitsForAWorkerThatIsLate) {
  PoolRanker ranker;
  const KeyId key(0);
  const WorkerId worker(0);
  std::vector<Grant> grants;
  ranker.set_delay_bound({.control = Duration::millis(1)});
  ranker.add_key(key);
  ranker.add_worker(worker, 0, kUnlimitedMemory, at(0), grants);
  ranker.offered(due_at(key, 0, 0), at(0), grants);
  ranker.answered({worker, true, at(10)}, at(0), grants);
  grants.clear();

  ranker.offered(due_at(key, 1, 12), at(12), grants);
  EXPECT_THAT(grants, IsEmpty());
  ranker.tick(at(30), grants);
  EXPECT_THAT(grants, IsEmpty());
  ranker.freed(worker, at(31), grants);
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].free_at, at(31));
}

}  // namespace
}  // namespace fermata::policy
