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

// Of 40 ms, 30 go to a batch that would have run for 1 ms when it was offered.
TEST(PoolRanker, TellsWhatOfTheWorkersTimeGoesToBatchesThatBeginAtAnyTime) {
  PoolRanker ranker(*policy_rules("fermata"));
  std::vector<Grant> grants;
  for (uint32_t k = 0; k < 2; ++k) ranker.add_key(KeyId(k));
  ranker.add_worker(WorkerId(0), 0, kUnlimitedMemory, at(0), grants);
  Offer shared = due_at(KeyId(1), 0, 0);
  shared.at_any_time = true;
  shared.run = Duration::millis(1);
  ranker.offered(shared, at(0), grants);
  ranker.answered({WorkerId(0), true, at(30)}, at(0), grants);
  ranker.freed(WorkerId(0), at(30), grants);
  ranker.offered(due_at(KeyId(0), 0, 30), at(30), grants);
  ranker.answered({WorkerId(0), true, at(40)}, at(30), grants);
  ranker.freed(WorkerId(0), at(40), grants);
  ranker.offered(due_at(KeyId(0), 1, 40), at(40), grants);
  ASSERT_THAT(grants, SizeIs(3));
  EXPECT_EQ(grants[1].at_any_time, 1);
  EXPECT_NEAR(grants[2].at_any_time, 0.75, 0.01);
  ranker.answered({WorkerId(0), true, at(50)}, at(40), grants);
  ranker.freed(WorkerId(0), at(50), grants);
  Offer backlog = due_at(KeyId(1), 1, 50);  // keeps nobody waiting, and tells nothing
  backlog.at_any_time = backlog.best_effort = true;
  ranker.offered(backlog, at(50), grants);
  ASSERT_THAT(grants, SizeIs(4));
  ranker.answered({WorkerId(0), true, at(5050)}, at(50), grants);
  ranker.freed(WorkerId(0), at(5050), grants);
  ranker.offered(due_at(KeyId(0), 2, 5050), at(5050), grants);
  ASSERT_THAT(grants, SizeIs(5));
  EXPECT_NEAR(grants[4].at_any_time, 0.6, 0.01);
}

// Of two workers the last one is kept for those who come a hundred times a second, from work that
// is longer than they can wait and cannot be cut. Once they come no more it may run.
TEST(PoolRanker, KeepsTheLastWorkerFromLongBestEffortWorkWhileOthersCome) {
  PoolRanker ranker(*policy_rules("fermata"));
  std::vector<Grant> grants;
  for (uint32_t k = 0; k < 3; ++k) ranker.add_key(KeyId(k));
  for (uint32_t w = 0; w < 2; ++w) {
    ranker.add_worker(WorkerId(w), 0, kUnlimitedMemory, at(0), grants);
  }
  Offer service{KeyId(0)};  // nothing of it waits
  service.outlook.rate = 100;
  service.outlook.alone = Duration::millis(5);
  service.outlook.load = 0.5;
  service.outlook.slack = Duration::millis(50);
  ranker.offered(service, at(0), grants);
  const auto backlog = [&](uint32_t key, uint64_t epoch, int64_t run_ms) {
    Offer offer = due_at(KeyId(key), epoch, 0);
    offer.best_effort = true;
    offer.run = offer.least = Duration::millis(run_ms);
    ranker.offered(offer, at(0), grants);
  };
  backlog(1, 0, 10'000);
  ASSERT_THAT(grants, SizeIs(1));
  ranker.answered({grants[0].worker, true, at(10'000)}, at(0), grants);
  backlog(1, 1, 10'000);
  EXPECT_THAT(grants, SizeIs(1));
  EXPECT_GT(ranker.next_wake(), at(0));
  EXPECT_LE(ranker.next_wake(), at(1000));
  backlog(2, 0, 1);  // a short one behind it
  ASSERT_THAT(grants, SizeIs(2));
  EXPECT_EQ(grants[1].key, KeyId(2));
  ranker.answered({grants[1].worker, true, at(1)}, at(0), grants);
  ranker.freed(grants[1].worker, at(1), grants);
  EXPECT_THAT(grants, SizeIs(2));
  ranker.tick(at(9000), grants);  // nobody has come for nine seconds
  ASSERT_THAT(grants, SizeIs(3));
  EXPECT_EQ(grants[2].key, KeyId(1));
}

// It has waited for twenty of its runs then, and so does the next.
TEST(PoolRanker, LongBestEffortWorkRunsNowAndThenBesideOthersThatKeepComing) {
  PoolRanker ranker(*policy_rules("fermata"));
  std::vector<Grant> grants;
  for (uint32_t k = 0; k < 2; ++k) ranker.add_key(KeyId(k));
  for (uint32_t w = 0; w < 2; ++w) {
    ranker.add_worker(WorkerId(w), 0, kUnlimitedMemory, at(0), grants);
  }
  uint64_t epoch = 0;
  std::vector<int64_t> ran_at;
  std::vector<Grant> later;
  for (int64_t ms = 0; ms < 20'000; ms += 10) {
    Offer service{KeyId(0)};
    service.outlook.rate = 100;
    service.outlook.seen = at(ms);
    service.outlook.load = 1.2;
    service.outlook.slack = Duration::millis(50);
    ranker.offered(service, at(ms), grants);
    Offer backlog = due_at(KeyId(1), epoch, 0);
    backlog.best_effort = true;
    backlog.run = backlog.least = Duration::millis(300);
    ranker.offered(backlog, at(ms), grants);
    ranker.tick(at(ms), grants);
    for (const Grant& grant : grants) {
      ran_at.push_back(ms);
      ++epoch;
      ranker.answered({grant.worker, true, at(ms + 300)}, at(ms), later);
      ranker.freed(grant.worker, at(ms), later);
    }
    grants.clear();
  }
  ASSERT_THAT(ran_at, SizeIs(3));
  EXPECT_NEAR(static_cast<double>(ran_at[0]), 6000, 50);
  EXPECT_NEAR(static_cast<double>(ran_at[1]), 12'300, 100);
}

// Of two by_type ones the first that is free waits for the other, if that may run it.
TEST(PoolRanker, TheOnlyWorkerThatMayRunLongBestEffortWorkDoes) {
  PoolRanker ranker(*policy_rules("fermata"));
  std::vector<Grant> grants;
  for (uint32_t k = 0; k < 2; ++k) ranker.add_key(KeyId(k));
  for (uint32_t w = 0; w < 2; ++w) {
    ranker.add_worker(WorkerId(w), w, kUnlimitedMemory, at(0), grants);
  }
  Offer service{KeyId(0)};
  service.outlook.rate = 100;
  service.outlook.load = 0.5;
  service.outlook.slack = Duration::millis(50);
  const auto latency = [](double alpha) { return *LatencyTable::make(LinearLatency{alpha, 1}, 4); };
  const LatencyByType by_type({latency(1), latency(10)});
  ranker.view().add_model(KeyId(0), {.name = "m", .latency = by_type});
  ranker.offered(service, at(0), grants);
  Offer backlog = due_at(KeyId(1), 0, 0);
  backlog.best_effort = true;
  backlog.run = backlog.least = Duration::seconds(10);
  ranker.offered(backlog, at(0), grants);
  EXPECT_THAT(grants, SizeIs(0));
  backlog.types = 1u << 1;
  ranker.offered(backlog, at(0), grants);
  EXPECT_THAT(grants, SizeIs(1));
}

// A worker that leaves ends what it runs and gets nothing more until it is back.
TEST(PoolRanker, GivesNothingToWorkersThatHaveLeft) {
  PoolRanker ranker;
  const KeyId key(0);
  std::vector<Grant> grants;
  ranker.add_key(key);
  for (uint32_t w = 0; w < 2; ++w) {
    ranker.add_worker(WorkerId(w), 0, kUnlimitedMemory, at(0), grants);
  }
  ranker.set_available(WorkerId(1), false, at(0), grants);
  EXPECT_EQ(ranker.view().serving(), 1u);
  ranker.offered(due_at(key, 0, 0), at(0), grants);
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants[0].worker, WorkerId(0));
  ranker.answered({WorkerId(0), true, at(10)}, at(0), grants);
  ranker.set_available(WorkerId(0), false, at(1), grants);
  ranker.set_available(WorkerId(1), true, at(1), grants);
  ranker.offered(due_at(key, 1, 1), at(1), grants);
  ASSERT_THAT(grants, SizeIs(2));
  EXPECT_EQ(grants[1].worker, WorkerId(1));
  ranker.answered({WorkerId(1), true, at(20)}, at(1), grants);
  EXPECT_EQ(ranker.expected_wait(at(2)), Duration::millis(18));
  ranker.freed(WorkerId(0), at(10), grants);
  ranker.offered(due_at(key, 2, 10), at(10), grants);
  EXPECT_THAT(grants, SizeIs(2));
  EXPECT_EQ(ranker.view().idle(0), 0u);
  ranker.set_available(WorkerId(0), true, at(12), grants);
  ASSERT_THAT(grants, SizeIs(3));
  EXPECT_EQ(grants[2].worker, WorkerId(0));
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
