#include <gtest/gtest.h>

#include "policy/scheduler.h"

namespace fermata::policy {
namespace {

constexpr int64_t kMemory = 100;

Time ahead_ms(int64_t ms) { return Time() + Duration::millis(ms); }

// Two workers that the scheduler tells apart, and two models of which each holds one.
struct AheadPool {
  AheadPool() {
    for (uint32_t type : {0, 1}) {
      workers.push_back(scheduler->add_worker(ahead_ms(0), decisions, type, kMemory));
    }
    for (uint32_t model : {0, 1}) add(model);
  }
  void add(uint32_t model) {
    const auto table = *LatencyTable::make(LinearLatency{1, 9}, 4);
    keys.push_back(scheduler->add_key({.name = "model",
                                       .latency = LatencyByType({table, table}),
                                       .variant = VariantId(model),
                                       .load = Duration::seconds(1),
                                       .memory_bytes = kMemory}));
  }
  // One request at that moment; where it runs, if it does at once.
  std::optional<Batch> request(KeyId key, int64_t ms) {
    scheduler->nominate({.job = JobId(++last),
                         .key = key,
                         .arrival = ahead_ms(ms),
                         .deadline = ahead_ms(ms + 50),
                         .start_from = ahead_ms(ms)},
                        ahead_ms(ms), decisions);
    return bound();
  }
  std::optional<Batch> bound() {
    std::optional<Batch> batch;
    if (!decisions.bound.empty()) batch = decisions.bound.front();
    decisions.clear();
    return batch;
  }
  std::unique_ptr<Scheduler> scheduler = *make_scheduler("fermata");
  Decisions decisions;
  std::vector<WorkerId> workers;
  std::vector<KeyId> keys;
  uint64_t last = 0;
};

TEST(LoadedAhead, BatchesRunWhereTheirModelIs) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), true}, ahead_ms(0),
                          pool.decisions);
  pool.scheduler->planned(LoadedAhead{pool.workers[0], VariantId(1), true}, ahead_ms(0),
                          pool.decisions);
  const auto first = pool.request(pool.keys[0], 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->worker, pool.workers[1]);
  EXPECT_FALSE(first->load);
  // The other worker is idle, and would have to load it.
  EXPECT_FALSE(pool.request(pool.keys[0], 2));
  const auto other = pool.request(pool.keys[1], 3);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->worker, pool.workers[0]);
  pool.scheduler->ended(pool.workers[1], ahead_ms(11), pool.decisions);
  const auto second = pool.bound();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->worker, pool.workers[1]);
}

// It moves while a request waits: that follows.
TEST(LoadedAhead, WhatWaitsFollowsItsModel) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), true}, ahead_ms(0),
                          pool.decisions);
  ASSERT_TRUE(pool.request(pool.keys[0], 1));
  EXPECT_FALSE(pool.request(pool.keys[0], 2));
  pool.scheduler->planned(LoadedAhead{pool.workers[0], VariantId(0), true}, ahead_ms(3),
                          pool.decisions);
  const auto batch = pool.bound();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->worker, pool.workers[0]);
}

TEST(LoadedAhead, AModelThatNobodyHoldsIsLoadedWhereItRuns) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), true}, ahead_ms(0),
                          pool.decisions);
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(0), false}, ahead_ms(1),
                          pool.decisions);
  const auto batch = pool.request(pool.keys[0], 2);
  ASSERT_TRUE(batch);
  EXPECT_TRUE(batch->load);
}

TEST(LoadedAhead, BeforeItsFirstRequestToo) {
  AheadPool pool;
  pool.scheduler->planned(LoadedAhead{pool.workers[1], VariantId(2), true}, ahead_ms(0),
                          pool.decisions);
  pool.add(2);
  const auto batch = pool.request(pool.keys[2], 1);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->worker, pool.workers[1]);
  EXPECT_FALSE(batch->load);
}

}  // namespace
}  // namespace fermata::policy
