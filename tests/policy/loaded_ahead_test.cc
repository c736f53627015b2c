#include "hand.h"

namespace fermata::policy {
namespace {

constexpr int64_t kMemory = 100;

// Two workers that the scheduler tells apart, and two models of which each holds one.
struct AheadPool : Hand {
  AheadPool() : Hand("fermata") {
    for (uint32_t type : {0, 1}) {
      workers.push_back(scheduler->add_worker(at_ms(0), out, type, kMemory));
    }
    for (uint32_t model : {0, 1}) add(model);
  }
  void add(uint32_t model) {
    const auto table = linear(1, 9, 4);
    keys.push_back(scheduler->add_key({.name = "model",
                                       .latency = LatencyByType({table, table}),
                                       .variant = VariantId(model),
                                       .load = Duration::seconds(1),
                                       .memory_bytes = kMemory}));
  }
  // One request at that moment; where it runs, if it does at once.
  std::optional<Batch> request(KeyId key, double ms) {
    arrive_planned(task(key, ms, 50));
    return bound();
  }
  std::optional<Batch> bound() {
    std::optional<Batch> batch;
    if (!out.bound.empty()) batch = out.bound.front();
    out.clear();
    return batch;
  }
  std::vector<WorkerId> workers;
  std::vector<KeyId> keys;
};

TEST(LoadedAhead, BatchesRunWhereTheirModelIs) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), true}, at_ms(0), pool.out);
  pool.scheduler->planned(LoadedAhead{pool.workers[0], VariantId(1), true}, at_ms(0), pool.out);
  const auto first = pool.request(pool.keys[0], 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->worker, pool.workers[1]);
  EXPECT_FALSE(first->load);
  // The other worker is idle, and would have to load it.
  EXPECT_FALSE(pool.request(pool.keys[0], 2));
  const auto other = pool.request(pool.keys[1], 3);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->worker, pool.workers[0]);
  pool.scheduler->ended(pool.workers[1], at_ms(11), pool.out);
  const auto second = pool.bound();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->worker, pool.workers[1]);
}

// It moves while a request waits: that follows.
TEST(LoadedAhead, WhatWaitsFollowsItsModel) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), true}, at_ms(0), pool.out);
  ASSERT_TRUE(pool.request(pool.keys[0], 1));
  EXPECT_FALSE(pool.request(pool.keys[0], 2));
  pool.scheduler->planned(LoadedAhead{pool.workers[0], VariantId(0), true}, at_ms(3), pool.out);
  const auto batch = pool.bound();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->worker, pool.workers[0]);
}

TEST(LoadedAhead, AModelThatNobodyHoldsIsLoadedWhereItRuns) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), true}, at_ms(0), pool.out);
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), false}, at_ms(1), pool.out);
  const auto batch = pool.request(pool.keys[0], 2);
  ASSERT_TRUE(batch);
  EXPECT_TRUE(batch->load);
}

TEST(LoadedAhead, BeforeItsFirstRequestToo) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(2), true}, at_ms(0), pool.out);
  pool.add(2);
  const auto batch = pool.request(pool.keys[2], 1);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->worker, pool.workers[1]);
  EXPECT_FALSE(batch->load);
}

}  // namespace
}  // namespace fermata::policy
