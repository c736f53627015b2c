#include "simulate/dedicated/dedicated.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/status.h"
#include "simulate/dedicated/adapt_document.h"
#include "simulate/dedicated/slack_fit.h"

namespace fermata::simulate {
namespace {

plan::PipelineStage stage(std::string name, double ms, std::vector<uint32_t> after) {
  plan::PipelineStage made;
  made.name = std::move(name);
  made.after = std::move(after);
  made.variants = {{"light", 0.5, 1, LinearLatency{ms / 2, ms / 2}},
                   {"heavy", 0.9, 2, LinearLatency{2 * ms, 2 * ms}}};
  return made;
}

DedicatedOptions two_stages(std::vector<double> loads) {
  DedicatedOptions options;
  plan::PipelineProblem& problem = options.adapter.problem;
  problem.rate_rps = 1;
  problem.sla_ms = 1000;
  problem.alpha = 10;
  problem.beta = 1;
  problem.delta = 1e-6;
  problem.batch_sizes = {1, 2, 4};
  problem.stages = {stage("a", 50, {}), stage("b", 20, {0})};
  options.loads = std::move(loads);
  return options;
}

LoadForecast constant(double load) {
  return [load](const auto&, size_t) { return load; };
}

std::vector<double> steady(double load, size_t seconds) {
  return std::vector<double>(seconds, load);
}

TEST(Dedicated, OneRequestTakesItsLatencies) {
  DedicatedOptions options = two_stages({1, 0, 0});
  options.adapter.method = plan::PipelineMethod::kFa2;
  options.adapter.variants = {0, 1};
  const DedicatedResult result = run_dedicated(options, constant(1));
  ASSERT_EQ(result.latencies_ms.size(), 1u);
  EXPECT_DOUBLE_EQ(result.latencies_ms[0], 50 + 80);
  EXPECT_DOUBLE_EQ(result.total.accuracy, 0.5 * 0.9);
  EXPECT_DOUBLE_EQ(result.total.cost, 1 + 2);  // a replica each
  EXPECT_EQ(result.total.on_time, 1u);
}

TEST(Dedicated, BranchesOfADagRunAtOnce) {
  DedicatedOptions options = two_stages({1});
  options.adapter.method = plan::PipelineMethod::kFa2;
  options.adapter.variants = {0, 0, 0};
  options.adapter.problem.stages.push_back(stage("c", 30, {0}));  // beside b
  const DedicatedResult result = run_dedicated(options, constant(1));
  EXPECT_DOUBLE_EQ(result.latencies_ms.at(0), 50 + 30);
  EXPECT_DOUBLE_EQ(result.total.accuracy, 0.125);
}

TEST(Dedicated, EveryRequestEndsUnderEveryRule) {
  std::vector<double> loads = steady(5, 40);
  loads.insert(loads.end(), 20, 120);
  loads.insert(loads.end(), 20, 3);
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  for (const DropRule drop : {DropRule::kNever, DropRule::kPublished, DropRule::kAhead}) {
    for (const BatchRule batch : {BatchRule::kPlanned, BatchRule::kSlackFit}) {
      DedicatedOptions options = two_stages(loads);
      options.drop = drop;
      options.batch = batch;
      const auto& total = run_dedicated(options, constant(10)).total;
      EXPECT_EQ(static_cast<double>(total.offered), all);
      EXPECT_EQ(total.on_time + total.late + total.dropped, total.offered);
      EXPECT_EQ(total.dropped == 0, drop == DropRule::kNever);
    }
  }
}

TEST(Dedicated, DroppingWhatCannotEndInTimeServesMoreInTime) {
  const auto on_time = [](DropRule drop) {
    DedicatedOptions options = two_stages(steady(40, 60));
    options.drop = drop;
    return run_dedicated(options, constant(20)).total.on_time;
  };
  EXPECT_GT(on_time(DropRule::kAhead), on_time(DropRule::kPublished));
  EXPECT_GE(on_time(DropRule::kPublished), on_time(DropRule::kNever));
}

TEST(Dedicated, KnowingTheFutureAvoidsLateRequests) {
  std::vector<double> loads;
  for (int round = 0; round < 4; ++round) {
    loads.insert(loads.end(), 40, 5);
    loads.insert(loads.end(), 40, 60);
  }
  const auto bad = [&](ForecastKind kind) {
    AdaptTask task;
    task.options = two_stages(loads);
    task.options.adapter.method = plan::PipelineMethod::kFa2;
    task.options.adapter.variants = {1, 1};
    task.options.adapter.margin = 1.3;  // the plan itself leaves no room for chance
    task.forecast = kind;
    const auto total = run_dedicated(task.options, make_forecast(task)).total;
    return total.late + total.dropped;
  };
  EXPECT_LT(bad(ForecastKind::kPerfect), 10u);
  EXPECT_GT(bad(ForecastKind::kReactive), 100u);
}

TEST(Dedicated, SwitchesLoseNoRequest) {
  std::vector<double> loads;
  for (int k = 0; k < 120; ++k) loads.push_back(k % 20 < 10 ? 4 : 30);
  DedicatedOptions options = two_stages(loads);
  options.drop = DropRule::kNever;
  options.adapter.problem.alpha = 60;  // now and then worth the heavier variant
  const auto result = run_dedicated(
      options, [](const auto&, size_t second) { return second % 20 == 0 ? 40.0 : 5.0; });
  EXPECT_GT(result.applied, 8u);
  EXPECT_EQ(result.total.dropped, 0u);
  EXPECT_EQ(result.latencies_ms.size(), result.total.offered);
}

TEST(Dedicated, TheSameSeedGivesTheSameRun) {
  AdaptTask task;
  task.options = two_stages(steady(20, 60));
  const auto text = [&] {
    return write_adapt(task, run_dedicated(task.options, make_forecast(task))).dump();
  };
  const std::string first = text();
  EXPECT_EQ(text(), first);
  task.options.seed = 2;
  EXPECT_NE(text(), first);
}

TEST(SlackFit, TakesTheLargestBatchThatTheSlackAffords) {
  // Latencies 10 and 20 of the light variant, 40 and 80 of the heavy one; buckets are 5 ms wide.
  const SlackFit fit({{0, 1, 1, 1, 0, 1, 10},
                      {0, 2, 1, 1, 0, 1, 20},
                      {1, 1, 1, 1, 0, 1, 40},
                      {1, 2, 1, 1, 0, 1, 80}},
                     {0.5, 0.9});
  const auto chosen = [&](double slack) {
    const plan::StageOption& option = fit.choose(slack);
    return std::pair(option.variant, option.batch);
  };
  EXPECT_EQ(chosen(-5), std::pair(0u, 1u));
  EXPECT_EQ(chosen(12), std::pair(0u, 1u));
  EXPECT_EQ(chosen(21), std::pair(0u, 2u));
  EXPECT_EQ(chosen(79), std::pair(1u, 1u));
  EXPECT_EQ(chosen(500), std::pair(1u, 2u));
}

constexpr std::string_view kAdapt = R"(
  {"pipeline": {"sla_ms": 600, "alpha": 2, "beta": 1, "stages": [{"name": "a", "variants": [
     {"name": "m", "accuracy": 0.5, "latency_ms": {"alpha": 5, "beta": 5}}]}]},
   "loads": [3, 4, 5], "method": "fa2", "variants": {"a": "m"}, "forecast": "perfect"})";

std::string error_of(std::string_view what, std::string_view by) {
  std::string text(kAdapt);
  text.replace(text.find(what), what.size(), by);
  auto document = Document::parse(text);
  return std::string(message(document->read(read_adapt).status()));
}

TEST(AdaptDocument, IsRead) {
  auto document = Document::parse(kAdapt);
  const auto task = document->read(read_adapt);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->forecast, ForecastKind::kPerfect);
  EXPECT_EQ(task->options.adapter.variants, std::vector<uint32_t>{0});
  EXPECT_EQ(run_dedicated(task->options, make_forecast(*task)).total.offered, 12u);
}

TEST(AdaptDocument, SaysWhatIsWrong) {
  EXPECT_EQ(error_of("\"a\": \"m\"", "\"a\": \"n\""),
            "$.variants.a: \"n\", expected the name of a variant of this stage");
  EXPECT_EQ(error_of("\"a\": \"m\"", "\"b\": \"m\""),
            "$.variants.b: \"m\", expected a stage as its name, not 'b'");
  EXPECT_EQ(error_of("{\"a\": \"m\"}", "{}"),
            "$.variants: a map, expected an entry for stage 'a' too");
  EXPECT_EQ(error_of("fa2", "ipa"), "$.variants: a map, expected no such field but for method fa2");
  EXPECT_EQ(error_of("[3, 4, 5]", "[0, 0]"),
            "$.loads: a list of 2, expected from 1 to 1e8 requests altogether");
  EXPECT_EQ(error_of("\"perfect\"", "\"model\""), "$.model: missing, expected a non-empty string");
  EXPECT_EQ(error_of("600", "0"), "$.pipeline.sla_ms: 0, expected a positive number");
}

}  // namespace
}  // namespace fermata::simulate
