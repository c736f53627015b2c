#include <gmock/gmock.h>

#include "simulate/checkers.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"

namespace fermata::simulate {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<Scenario> read_text(std::string_view text) {
  auto document = Document::parse(text, Document::Format::kYaml);
  EXPECT_TRUE(document.ok()) << document.status();
  return document->read(read_scenario);
}

constexpr std::string_view kBegin = R"(
workers: {count: 3}
warmup_s: 0.5
duration_s: 5
rate_rps: 60
models:
  - {name: a, latency_ms: {alpha: 1, beta: 5}, slo_ms: null, share: 0}
  - {name: b, latency_ms: {alpha: 2, beta: 8}, slo_ms: 50, share: 0, max_batch: 8}
)";

Result simulated(std::string_view text) {
  const auto scenario = read_text(std::string(kBegin) + std::string(text));
  EXPECT_TRUE(scenario.ok()) << scenario.status();
  const auto result = run(*scenario);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

std::string error(std::string_view text) {
  const auto scenario = read_text(std::string(kBegin) + std::string(text));
  EXPECT_FALSE(scenario.ok());
  return std::string(scenario.status().message());
}

TEST(Pipelines, StagesRunOneAfterAnother) {
  const Result result = simulated(R"(
pipelines:
  - {name: p, slo_ms: 100, stages: [{name: x, service: a}, {name: y, service: b}]}
)");
  const ModelResult& p = result.models.back();
  EXPECT_GT(p.offered, 200u);
  EXPECT_LT(p.bad_rate(), 0.02);
  EXPECT_EQ(p.late, 0u);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_EQ(p.stages[0].offered, p.offered);
  EXPECT_EQ(p.stages[1].offered, p.stages[0].on_time);
  EXPECT_EQ(p.stages[1].on_time, p.on_time);
  EXPECT_GE(p.latency.quantile(0), Duration::millis(16));
}

TEST(Pipelines, InOverloadWhatHasBegunIsServedFirst) {
  // One worker carries 314 a second of them in batches of 16.
  const auto scenario = read_text(R"(
workers: {count: 1}
warmup_s: 1
duration_s: 5
rate_rps: 628
models:
  - {name: a, latency_ms: {alpha: 1, beta: 1}, slo_ms: null, share: 0, max_batch: 16}
  - {name: b, latency_ms: {alpha: 1, beta: 1}, slo_ms: null, share: 0, max_batch: 16}
  - {name: c, latency_ms: {alpha: 1, beta: 1}, slo_ms: null, share: 0, max_batch: 16}
pipelines:
  - {name: p, slo_ms: 200, stages: [{name: x, service: a}, {name: y, service: b}, {name: z, service: c}]}
)");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const auto result = run(*scenario);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->models.back().on_time, 5u * 314 * 9 / 10);
}

TEST(Pipelines, StagesMakeItemsAndNoneIsAnAnswer) {
  const Result result = simulated(R"(
pipelines:
  - name: p
    slo_ms: 200
    stages: [{name: x, service: a, makes: {0: 0.5, 3: 0.5}}, {name: y, service: b}]
)");
  const ModelResult& p = result.models.back();
  EXPECT_EQ(p.on_time, p.offered);
  EXPECT_NEAR(static_cast<double>(p.stages[1].offered) / static_cast<double>(p.offered), 0.5, 0.1);
  EXPECT_EQ(p.stages[1].items, p.stages[1].offered * 3);
}

TEST(Pipelines, StagesMayHaveVariantsOfTheirOwnAndBePipelines) {
  const Result result = simulated(R"(
pipelines:
  - name: outer
    slo_ms: 300
    items: {1: 0.5, 20: 0.5}
    stages: [{name: inside, service: inner}, {name: last, service: b}]
  - name: inner
    slo_ms: 100
    share: 0
    stages:
      - {name: x, service: a}
      - name: y
        variants:
          - {name: v, accuracy: 0.8, latency_ms: {alpha: 1, beta: 3}}
          - {name: w, accuracy: 0.9, latency_ms: {alpha: 1, beta: 9}}
)");
  const ModelResult& inner = result.models.back();
  const ModelResult& outer = result.models[result.models.size() - 2];
  EXPECT_EQ(inner.offered, 0u);
  EXPECT_EQ(outer.stages[0].offered, outer.offered);
  EXPECT_GT(outer.on_time, outer.offered / 2);
  const double accuracy = outer.accuracy / static_cast<double>(outer.on_time + outer.late);
  EXPECT_GE(accuracy, 0.8 - 1e-9);
  EXPECT_LE(accuracy, 0.9 + 1e-9);
}

TEST(Pipelines, AStageMayRunForSomeOnly) {
  const Result result = simulated(R"(
pipelines:
  - name: p
    slo_ms: 200
    stages: [{name: x, service: a}, {name: y, service: b, when: 0.3, after: [x]},
             {name: z, service: a, after: [x]}]
)");
  const ModelResult& p = result.models.back();
  EXPECT_EQ(p.on_time, p.offered);
  EXPECT_NEAR(static_cast<double>(p.stages[1].offered) / static_cast<double>(p.offered), 0.3, 0.08);
  EXPECT_EQ(p.stages[2].offered, p.offered);
}

// A thousand requests a second would need some eight workers: most are rejected when they come.
TEST(Pipelines, OverloadRejectsBeforeItCosts) {
  const Result result = simulated(R"(
pipelines:
  - {name: p, slo_ms: 100, share: 20, stages: [{name: x, service: a}, {name: y, service: b}]}
  - {name: q, slo_ms: 100, share: 0.01, stages: [{name: x, service: a}]}
)");
  const ModelResult& p = result.models[2];
  EXPECT_EQ(p.late, 0u);
  EXPECT_EQ(p.offered, p.on_time + p.dropped);
}

TEST(Requests, OfManyItemsAreJoined) {
  const auto scenario = read_text(R"(
workers: {count: 2}
duration_s: 5
rate_rps: 40
models: [{name: a, latency_ms: {alpha: 1, beta: 5}, slo_ms: 200, max_batch: 16,
          items: {1: 0.5, 50: 0.5}}]
)");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  Trace trace;
  const auto result = run(*scenario, {.trace = &trace});
  EXPECT_THAT(check_always(*scenario, trace), IsEmpty());
  const ModelResult& a = result->models[0];
  EXPECT_EQ(a.offered, a.on_time + a.late + a.dropped);
  EXPECT_GT(a.items, a.offered * 20);
  EXPECT_GT(a.on_time, a.offered * 3 / 4);
}

// Those without a deadline wait until nobody else does, and all end.
TEST(Requests, MayHaveMixedDeadlinesOrNone) {
  const auto scenario = read_text(R"(
workers: {count: 1}
duration_s: 2
rate_rps: 400
models: [{name: a, latency_ms: {alpha: 1, beta: 5}, max_batch: 8,
          slo_ms: {mix: [{share: 0.5, slo_ms: 20}, {share: 0.5, slo_ms: null}]}}]
)");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const auto result = run(*scenario);
  const ModelResult& a = result->models[0];
  EXPECT_GT(a.on_time, a.offered / 2);
  EXPECT_EQ(a.late, 0u);
}

constexpr std::string_view kAdapted = R"(
warmup_s: WARMUP
duration_s: 300
rate_rps: 12
workers: {count: auto, max: 12, apply_s: 2}
pipelines:
  - name: p
    slo_ms: 2000
    adapter: {alpha: ALPHA, variants: VARIANTS}
    stages:
      - {name: x, variants: [{name: light, latency_ms: {alpha: 20, beta: 20}, accuracy: 0.6},
                             {name: heavy, latency_ms: {alpha: 150, beta: 150}, accuracy: 0.9}]}
      - {name: y, service: m}
models: [{name: m, latency_ms: {alpha: 5, beta: 5}, slo_ms: null, share: 0}]
)";

Result adapted(std::string_view variants, std::string_view alpha, std::string_view warmup = "0") {
  std::string text(kAdapted);
  const auto put = [&text](std::string_view what, std::string_view in_its_place) {
    text.replace(text.find(what), what.size(), in_its_place);
  };
  put("VARIANTS", variants);
  put("ALPHA", alpha);
  put("WARMUP", warmup);
  const auto scenario = read_text(text);
  EXPECT_TRUE(scenario.ok()) << scenario.status();
  const auto result = run(*scenario);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

// Two workers carry the heavy variant, a fraction of one the light one. Until there is a plan, one
// worker serves.
TEST(Pipelines, AnAdapterPlansVariantsAndWorkersComeAndGo) {
  const Result accurate = adapted("planned", "100"), cheap = adapted("planned", "0.1");
  EXPECT_GT(accurate.mean_workers(), 2);
  EXPECT_LT(accurate.mean_workers(), 6);
  EXPECT_LT(cheap.mean_workers(), 1.5);
  const ModelResult &most = accurate.models.back(), &least = cheap.models.back();
  EXPECT_LT(most.bad_rate(), 0.02);
  EXPECT_LT(least.bad_rate(), 0.02);
  EXPECT_GT(most.accuracy / static_cast<double>(most.on_time), 0.85);
  EXPECT_NEAR(least.accuracy / static_cast<double>(least.on_time), 0.6, 0.01);
}

// What is counted for the signal does not wait for what is measured.
TEST(Pipelines, WorkersComeAndGoInTheWarmUpToo) {
  const Result cold = adapted("planned", "100"), warm = adapted("planned", "100", "100");
  EXPECT_NEAR(warm.mean_workers(), cold.mean_workers(), 0.5);
}

// Workers that the cheap plan leaves idle have time for the heavy variant.
TEST(Pipelines, PlansMayLeaveVariantsOpen) {
  const Result any = adapted("any", "0.1");
  const ModelResult& p = any.models.back();
  EXPECT_LT(any.mean_workers(), 5);
  EXPECT_GT(p.accuracy / static_cast<double>(p.on_time), 0.61);
}

// Twenty items of one, of which the variant that the plan names takes eight at a time.
TEST(Pipelines, WhatAPlannedStageGetsBeyondABatchRunsInParts) {
  const auto scenario = read_text(R"(
warmup_s: 11
duration_s: 30
rate_rps: 10
workers: {count: 6}
pipelines:
  - name: p
    slo_ms: 1000
    adapter: {alpha: 1000, interval_s: 10}
    stages:
      - {name: x, service: m, makes: {"20": 1}}
      - {name: y, variants: [{name: light, latency_ms: {alpha: 1, beta: 2}, accuracy: 0.6, max_batch: 8},
                             {name: heavy, latency_ms: {alpha: 2, beta: 4}, accuracy: 0.9, max_batch: 8}]}
models: [{name: m, latency_ms: {alpha: 5, beta: 5}, slo_ms: null, share: 0}]
)");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  Trace trace;
  const auto result = run(*scenario, {.trace = &trace});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(check_always(*scenario, trace), IsEmpty());
  const ModelResult& p = result->models.back();
  EXPECT_EQ(p.on_time, p.offered);
  EXPECT_EQ(p.stages[1].items, 20 * p.offered);
  EXPECT_NEAR(p.accuracy / static_cast<double>(p.on_time), 0.9, 1e-9);
}

TEST(Pipelines, TooManyItemsEndTheRunAndNameTheStage) {
  const auto scenario = read_text(std::string(kBegin) + R"(
pipelines:
  - name: p
    slo_ms: null
    stages: [{name: x, service: a, makes: 65536}, {name: y, service: a, makes: 65536}, {name: z, service: b}]
)");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_THAT(std::string(run(*scenario).status().message()),
              HasSubstr("stage 'y' of 'p' has made 4294967296 items of one request"));
}

TEST(Pipelines, MistakesOfAdaptersAreSaid) {
  EXPECT_THAT(
      error("pipelines: [{name: p, slo_ms: null, adapter: {}, stages: [{name: x, service: a}]}]"),
      HasSubstr("an slo_ms to plan for"));
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, share: 0, stages: [{name: x, service: a}]},"
                    "{name: q, slo_ms: 9, adapter: {}, stages: [{name: x, service: p}]}]"),
              HasSubstr("not 'x' of 'q'"));
  for (const std::string_view workers :
       {"{count: auto}", "{count: auto, max: 2, min: 3}", "{count: some}",
        "[{count: auto, max: 2}]", "{count: 2, max: 3}"}) {
    const auto scenario = read_text(
        "workers: " + std::string(workers) +
        "\nrate_rps: 1\nmodels: [{name: a, latency_ms: {alpha: 1, beta: 5}, slo_ms: 20}]");
    EXPECT_FALSE(scenario.ok()) << workers;
  }
  const auto scenario = read_text(
      "workers: {count: auto, max: 2}\nrate_rps: 1\nscheduler: nexus\nmodels: [{name: a, "
      "latency_ms: {alpha: 1, beta: 5}, slo_ms: 20}]");
  EXPECT_EQ(scenario.status().message(),
            "$.scheduler: \"nexus\", expected one that lets workers come and go");
}

TEST(Pipelines, MistakesAreSaid) {
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, stages: [{name: x, service: p}]}]"),
              HasSubstr("'p' contains itself"));
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, stages: [{name: x, service: q}]},"
                    "{name: q, slo_ms: 9, stages: [{name: x, service: p}]}]"),
              HasSubstr("contains itself"));
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, stages: [{name: x, service: nobody}]}]"),
              HasSubstr("stages[0].service: \"nobody\", expected the name of a service"));
  EXPECT_THAT(error("pipelines: [{name: a, slo_ms: 9, stages: [{name: x, service: b}]}]"),
              HasSubstr("no two have the same name"));
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, stages: [{name: x, service: a, after: [y]},"
                    "{name: y, service: a, after: [x]}]}]"),
              HasSubstr("comes after itself"));
  EXPECT_THAT(
      error("pipelines: [{name: p, slo_ms: 9, stages: [{name: x, service: a, after: [z]}]}]"),
      HasSubstr("the name of another stage"));
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, stages: [{name: x}]}]"),
              HasSubstr("either service or variants"));
  EXPECT_THAT(error("pipelines: [{name: p, slo_ms: 9, stages: []}]"), HasSubstr("stages"));
}

}  // namespace
}  // namespace fermata::simulate
