#include "cli/scheduler_load.h"

#include <gtest/gtest.h>

namespace fermata::cli {
namespace {

SchedulerLoad virtual_load(uint32_t models, uint32_t threads) {
  SchedulerLoad load;
  load.models = models;
  load.threads = threads;
  load.rate_rps = 100'000;
  load.duration = Duration::millis(200);
  load.virtual_turn = Duration::micros(10);
  return load;
}

TEST(SchedulerLoad, EverythingEndsOnTimeOrStillWaits) {
  for (const uint32_t threads : {1, 3}) {
    const auto result = run_scheduler_load(virtual_load(6, threads));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GT(result->offered, 19'000u);
    EXPECT_EQ(result->bad_rate(), 0);
    EXPECT_EQ(result->offered, result->on_time + result->waiting);
    EXPECT_LT(result->waiting, 100'000 * 0.025);  // what came within the last SLO
    EXPECT_GT(result->mean_batch(), 5);
  }
}

TEST(SchedulerLoad, VirtualTimeDoesTheSameWorkEachTime) {
  const auto first = run_scheduler_load(virtual_load(4, 2));
  const auto second = run_scheduler_load(virtual_load(4, 2));
  EXPECT_EQ(first->offered, second->offered);
  EXPECT_EQ(first->batches, second->batches);
  EXPECT_EQ(first->lag.max(), second->lag.max());
}

TEST(SchedulerLoad, EachThreadNeedsAModel) {
  EXPECT_FALSE(run_scheduler_load(virtual_load(2, 3)).ok());
}

}  // namespace
}  // namespace fermata::cli
