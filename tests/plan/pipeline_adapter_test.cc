#include "plan/pipeline/pipeline_adapter.h"

#include <gtest/gtest.h>

namespace fermata::plan {
namespace {

PipelineStage stage(std::string name, double fast_ms, double fast_cost) {
  PipelineStage made{.name = std::move(name)};
  made.variants = {{"slow", 0.9, 8, TableLatency{{{1, 10 * fast_ms}}}},
                   {"fast", 0.5, fast_cost, TableLatency{{{1, fast_ms}}}}};
  return made;
}

PipelineAdapterOptions of_two_stages(double max_cost) {
  PipelineAdapterOptions options;
  options.problem.stages = {stage("a", 10, 1), stage("b", 20, 2)};
  options.problem.sla_ms = 1000;
  options.problem.batch_sizes = {1};
  options.problem.max_cost = max_cost;
  return options;
}

// Nothing keeps the limits at that rate: the fastest variants run, on what may be had and no more.
TEST(PipelineAdapter, ItsFirstPlanCostsNoMoreThanIsAllowed) {
  const PipelineAdapterOptions options = of_two_stages(7);
  PipelineAdapter adapter(options);
  const PipelineDecision decision = adapter.decide(100'000);
  EXPECT_FALSE(decision.answer.feasible);
  double cost = 0;
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(adapter.current()[s].variant, 1u);
    EXPECT_GE(adapter.current()[s].replicas, 1);
    cost += options.problem.stages[s].variants[1].cost * adapter.current()[s].replicas;
  }
  EXPECT_LE(cost, 7);
  EXPECT_GE(cost, 6);
}

// One replica of each is there even where that is more.
TEST(PipelineAdapter, EveryStageHasAReplica) {
  const PipelineAdapterOptions options = of_two_stages(2);
  PipelineAdapter adapter(options);
  adapter.decide(100'000);
  for (const PipelineStagePlan& plan : adapter.current()) EXPECT_EQ(plan.replicas, 1);
}

// Sixteen parts of workers serve sixteen times the rate, but nobody comes sixteen times as often to
// fill a batch.
TEST(PipelineAdapter, BatchesOfSharedWorkersFillAsRequestsCome) {
  PipelineAdapterOptions options = of_two_stages(100);
  for (PipelineStage& stage : options.problem.stages) {
    for (PipelineVariant& v : stage.variants) {
      v.cost /= PipelineAdapter::kShares;
      v.latency = TableLatency{{{1, 100}, {8, 200}}};
    }
  }
  options.problem.batch_sizes = {1, 8};
  options.problem.beta = 1;
  options.shares = PipelineAdapter::kShares;
  PipelineAdapter adapter(options);
  const PipelineDecision decision = adapter.decide(4);  // a batch of 8 takes 1.75 s to fill
  ASSERT_TRUE(decision.answer.feasible);
  EXPECT_EQ(decision.problem.rate_rps, 64);
  EXPECT_EQ(decision.problem.filling_rps, 4);
  for (const PipelineStagePlan& plan : decision.answer.stages) EXPECT_EQ(plan.batch, 1u);
}

// Seven a second for a second, or five a second for two, which may wait where the SLA leaves the
// time.
TEST(PipelineAdapter, BurstsMayWaitWhereTheSlaLeavesTheTime) {
  PipelineAdapterOptions options = of_two_stages(100);
  options.problem.alpha = 1;
  options.problem.beta = 1;
  const std::vector<PipelineDemand> demands = {{700, 0}, {500, 600}, {300, 2000}};
  PipelineAdapter waiting(options);
  const PipelineDecision waits = waiting.decide(demands);
  EXPECT_EQ(waits.demand.wait_ms, 600);
  EXPECT_EQ(waits.problem.rate_rps, 500);
  EXPECT_EQ(waits.problem.sla_ms, 400);
  options.problem.sla_ms = 500;
  EXPECT_EQ(PipelineAdapter(options).decide(demands).demand.wait_ms, 0);
  options.problem.sla_ms = 10;  // nothing is so fast: it is said of the first
  const PipelineDecision none = PipelineAdapter(options).decide(demands);
  EXPECT_FALSE(none.answer.feasible);
  EXPECT_EQ(none.problem.sla_ms, 10);
}

}  // namespace
}  // namespace fermata::plan
