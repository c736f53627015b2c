// Pools of heterogeneous workers (SneakPeek, section 7): 50 ms on a worker of type 0, 5 ms on one
// of type 1.
#include <gmock/gmock.h>

#include "variants_hand.h"

namespace fermata::policy {
namespace {

using ::testing::SizeIs;

constexpr uint32_t kSlow = 0, kFast = 1;

LatencyByType by_type(double slow_ms, double fast_ms) {
  return LatencyByType({linear(0, slow_ms), linear(0, fast_ms)});
}

// With the two workers, the slow one first.
struct TwoTypes : Hand {
  explicit TwoTypes(std::string_view policy) : Hand(policy) {
    key = scheduler->add_key({.name = "k", .latency = by_type(50, 5)});
    for (const uint32_t type : {kSlow, kFast}) {
      workers.push_back(scheduler->add_worker(Time(), out, type));
    }
  }
  KeyId key;
  std::vector<WorkerId> workers;
};

TEST(LatencyByType, KnowsTheSlowestAndTheFastestOfEachSize) {
  const LatencyByType latency({linear(1, 10, 8), linear(4, 1, 6)});
  EXPECT_EQ(latency.slowest()->max_batch(), 6u);
  EXPECT_NEAR((*latency.slowest())(1).millis(), 11, 1e-6);
  EXPECT_NEAR((*latency.slowest())(6).millis(), 25, 1e-6);
  EXPECT_NEAR(latency.fastest(1).millis(), 5, 1e-6);
  EXPECT_NEAR(latency.fastest(6).millis(), 16, 1e-6);
  const LatencyByType changed = latency.with(1, linear(0, 2, 8));
  EXPECT_NEAR(changed.on(0)(1).millis(), 11, 1e-6);
  EXPECT_NEAR(changed.on(1)(1).millis(), 2, 1e-6);
  EXPECT_NEAR(LatencyByType(linear(0, 3)).with(1, linear(0, 2)).on(7)(1).millis(), 2, 1e-6);
}

class OnHeterogeneousWorkers : public testing::TestWithParam<std::string_view> {};

TEST_P(OnHeterogeneousWorkers, WhatOnlyOneTypeCanEndInTimeGoesThere) {
  TwoTypes pool(GetParam());
  pool.arrive(pool.key, 0, 20);
  pool.tick(15);
  const Batch batch = pool.batch();
  EXPECT_EQ(batch.worker, pool.workers[kFast]);
  EXPECT_NEAR((batch.finish - batch.start).millis(), 5, 1e-6);
}

// Though the slow one is idle, and would end it too late.
TEST_P(OnHeterogeneousWorkers, WaitsForTheOneThatCan) {
  TwoTypes pool(GetParam());
  pool.arrive(pool.key, 0, 6);
  pool.tick(1);
  EXPECT_EQ(pool.batch().worker, pool.workers[kFast]);
  pool.arrive(pool.key, 2, 12);
  pool.tick(4);
  EXPECT_TRUE(pool.quiet());
  pool.freed(pool.workers[kFast], 6);
  pool.tick(9);
  EXPECT_EQ(pool.batch().worker, pool.workers[kFast]);
}

TEST_P(OnHeterogeneousWorkers, IsRefusedWhenNoTypeCan) {
  TwoTypes pool(GetParam());
  pool.arrive(pool.key, 0, 5.5);
  pool.tick(0.5);
  EXPECT_EQ(pool.batch().worker, pool.workers[kFast]);
  pool.arrive(pool.key, 1, 8);
  pool.tick(4);
  EXPECT_TRUE(pool.quiet());
  pool.tick(4.1);
  EXPECT_THAT(pool.out.bound, SizeIs(0));
  EXPECT_THAT(pool.out.dropped, SizeIs(1));
}

TEST_P(OnHeterogeneousWorkers, TheFirstTypeIsTakenFirst) {
  TwoTypes pool(GetParam());
  pool.arrive(pool.key, 0, 1000);
  pool.tick(950);
  EXPECT_EQ(pool.batch().worker, pool.workers[kSlow]);
  pool.arrive_best_effort(pool.key, 951);
  EXPECT_EQ(pool.batch().worker, pool.workers[kFast]);
}

TEST_P(OnHeterogeneousWorkers, BatchesAreAsLargeAsTheWorkerAllows) {
  Hand pool(GetParam());
  const KeyId key = pool.scheduler->add_key(
      {.name = "k", .latency = LatencyByType({linear(10, 5), linear(1, 1)})});
  const WorkerId slow = pool.scheduler->add_worker(Time(), pool.out, kSlow);
  const WorkerId fast = pool.scheduler->add_worker(Time(), pool.out, kFast);
  pool.arrive(key, 0, 10);
  pool.tick(7.5);
  EXPECT_EQ(pool.batch().worker, fast);
  for (int i = 0; i < 8; ++i) pool.arrive(key, 9.5, 20);
  const Batch one = pool.batch();
  EXPECT_EQ(one.worker, slow);
  EXPECT_THAT(one.tasks, SizeIs(1)) << "more would be late";
  pool.freed(fast, 11);
  pool.tick(20.5);
  EXPECT_THAT(pool.batch().tasks, SizeIs(7));
}

// The second is faster with one item, the first with many.
TEST_P(OnHeterogeneousWorkers, WhichTypeIsFasterMayDependOnTheSize) {
  Hand pool(GetParam());
  const KeyId key = pool.scheduler->add_key(
      {.name = "k", .latency = LatencyByType({linear(0.2, 8), linear(5, 2)})});
  const WorkerId first = pool.scheduler->add_worker(Time(), pool.out, 0);
  const WorkerId second = pool.scheduler->add_worker(Time(), pool.out, 1);
  pool.arrive(key, 0, 40, 8);
  pool.tick(30.3);
  EXPECT_EQ(pool.batch().worker, first);
  pool.arrive(key, 31, 7.1);
  EXPECT_EQ(pool.batch().worker, second);
}

TEST_P(OnHeterogeneousWorkers, WhatWaitsBehindALateHeadRunsWhereItIsInTime) {
  TwoTypes pool(GetParam());
  pool.arrive(pool.key, 0, 5.5);
  pool.tick(0.5);
  EXPECT_EQ(pool.batch().worker, pool.workers[kFast]);
  const Task late = pool.arrive(pool.key, 1, 30);
  const Task behind = pool.arrive(pool.key, 2, 500);
  const Batch batch = pool.batch();
  EXPECT_EQ(batch.worker, pool.workers[kSlow]);
  ASSERT_THAT(batch.tasks, SizeIs(1));
  EXPECT_EQ(batch.tasks[0].job, behind.job);
  pool.freed(pool.workers[kFast], 6);
  pool.tick(26);
  EXPECT_EQ(pool.batch().tasks.at(0).job, late.job);
}

TEST_P(OnHeterogeneousWorkers, OneTypesLatencyMayChange) {
  TwoTypes pool(GetParam());
  pool.scheduler->update_latency(pool.key, by_type(50, 60), at_ms(0), pool.out);
  pool.arrive(pool.key, 0, 55);
  pool.tick(5);
  EXPECT_EQ(pool.batch().worker, pool.workers[kSlow]);
}

INSTANTIATE_TEST_SUITE_P(All, OnHeterogeneousWorkers,
                         testing::Values("fermata", "deferred", "deferred-beta-lambda",
                                         "deferred-prefix", "eager", "clockwork", "edf"),
                         test_name);

// The one fast worker is free again sooner than any of the slow ones could answer.
TEST(VariantsOnHeterogeneousWorkers, WaitForTheFastOneHoweverManySlowOnesIdle) {
  for (const size_t slow : {1, 3, 6, 15}) {
    VariantsHand pool("fermata");
    const KeyId model =
        pool.scheduler->add_key({.name = "v", .latency = by_type(50, 5), .variant = VariantId(0)});
    std::vector<WorkerId> workers;
    for (size_t w = 0; w < slow; ++w) {
      workers.push_back(pool.scheduler->add_worker(Time(), pool.out, kSlow));
    }
    const WorkerId fast = pool.scheduler->add_worker(Time(), pool.out, kFast);
    const KeyId service = pool.service({{model, 0.9, {}}}, {plan::PenaltyShape::kLinear});
    pool.arrive(service, 0, 40);
    pool.tick(0);
    ASSERT_EQ(pool.batch().worker, fast) << slow;
    pool.arrive(service, 1, 40);
    pool.tick(1);
    EXPECT_TRUE(pool.quiet()) << slow;
    pool.freed(fast, 5);
    pool.tick(5);
    EXPECT_EQ(pool.batch().worker, fast) << slow;
  }
}

}  // namespace
}  // namespace fermata::policy
