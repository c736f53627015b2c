#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "policy/scheduler.h"
#include "simulate/checkers.h"
#include "simulate/driver.h"
#include "simulate/goodput.h"

namespace fermata::simulate {
namespace {

using testing::IsEmpty;

SimulatedModel model(std::string name, double alpha_ms, double beta_ms, double slo_ms) {
  SimulatedModel m;
  m.name = std::move(name);
  m.latency = {LinearLatency{alpha_ms, beta_ms}};
  m.slo = Duration::from_millis(slo_ms);
  return m;
}

Scenario cluster(std::string_view scheduler, uint32_t workers, std::vector<SimulatedModel> models,
                 double rate_rps) {
  Scenario s;
  s.scheduler = scheduler;
  s.workers = {{"default", workers, 0}};
  s.models = std::move(models);
  s.rate_rps = rate_rps;
  s.warmup = Duration::millis(500);
  s.duration = Duration::seconds(3);
  return s;
}

// Drawn from a seed: one to eight models, from a tenth to thrice what they could bear.
Scenario drawn(std::string_view scheduler, uint64_t seed) {
  Random random(seed);
  std::vector<SimulatedModel> models;
  const uint64_t n = 1 + random.below(8);
  for (uint64_t i = 0; i < n; ++i) {
    const double alpha = 0.3 + 5 * random.uniform(), beta = 12 * random.uniform();
    models.push_back(
        model("m" + std::to_string(i), alpha, beta, (alpha + beta) * (1.5 + 4 * random.uniform())));
    models.back().share = 0.2 + random.uniform();
    if (random.below(3) == 0) models.back().max_batch = 1 + static_cast<uint32_t>(random.below(8));
    if (random.below(2) == 0) models.back().arrival = GammaArrivals{0.05 + random.uniform()};
    if (random.below(8) == 0) models.back().arrival = UniformArrivals{};
  }
  Scenario s =
      cluster(scheduler, 1 + static_cast<uint32_t>(random.below(12)), std::move(models), 0);
  s.seed = seed;
  s.rate_rps = rate_bound(s) * (0.1 + 2.9 * random.uniform());
  if (random.below(3) == 0) {
    s.network = {Duration::from_millis(random.uniform()), Duration::micros(20)};
  }
  return s;
}

class AnyRun : public testing::TestWithParam<std::string_view> {};

TEST_P(AnyRun, SatisfiesTheCheckers) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const Scenario scenario = drawn(GetParam(), seed);
    Trace trace;
    const auto result = run(scenario, {.trace = &trace});
    ASSERT_TRUE(result.ok());
    ASSERT_THAT(check_always(scenario, trace), IsEmpty()) << "seed " << seed;
    const bool undelayed = scenario.network(1) == Duration();
    if (GetParam() == "deferred" && undelayed) {
      ASSERT_THAT(check_deferral(scenario, trace), IsEmpty()) << "seed " << seed;
    }
    if (GetParam() == "eager" || GetParam() == "clockwork" || GetParam() == "edf") {
      if (undelayed) {
        ASSERT_THAT(check_work_conservation(scenario, trace), IsEmpty()) << "seed " << seed;
      }
    }
  }
}

TEST_P(AnyRun, IsTheSameWithTheSameSeed) {
  Scenario scenario = drawn(GetParam(), 3);
  const auto first = run(scenario), second = run(scenario);
  EXPECT_EQ(first->hash, second->hash);
  EXPECT_EQ(first->events, second->events);
  ++scenario.seed;
  EXPECT_NE(run(scenario)->hash, first->hash);
}

INSTANTIATE_TEST_SUITE_P(All, AnyRun, testing::ValuesIn(policy::scheduler_names()),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Simulation, CountsWhatArrivedAndWhatBecameOfIt) {
  const auto result = run(cluster("deferred", 2, {model("m", 1, 5, 20)}, 2000));
  const ModelResult& m = result->models[0];
  EXPECT_NEAR(static_cast<double>(m.offered), 6000, 300);
  EXPECT_EQ(m.offered, m.on_time + m.late + m.dropped);
  EXPECT_EQ(m.late, 0u);
  EXPECT_GT(m.dropped, 0u);  // two workers bear 2·14/19 ms = 1474/s
}

TEST(Simulation, UniformArrivalsReachTheBoundOfStaggeredExecution) {
  // Symphony Table 4: b = ⌊(25/(1 + 1/8) - 5.072)/1.053⌋ = 16, 8·16/ℓ(16) = 5839/s.
  Scenario s = cluster("deferred", 8, {model("resnet50", 1.053, 5.072, 25)}, 5800);
  s.models[0].arrival = UniformArrivals{};
  EXPECT_EQ(run(s)->worst_bad_rate(), 0);
}

TEST(Simulation, DeferralLeavesHalfOfAPoolIdleAtHalfItsPeak) {
  const auto result = run(cluster("fermata", 8, {model("resnet50", 1.053, 5.072, 25)}, 2650));
  EXPECT_NEAR(result->utilization(), 0.5, 0.05);
}

TEST(Simulation, WindowDropHoldsUnderOverloadAndPrefixPruningDoesNot) {
  const auto good = [](std::string_view policy) {
    return static_cast<double>(run(cluster(policy, 8, {model("resnet50", 1.053, 5.072, 25)}, 9000))
                                   ->models[0]
                                   .on_time) /
           3;
  };
  EXPECT_GT(good("fermata"), 5700);
  EXPECT_GT(good("deferred"), 5700);
  EXPECT_LT(good("deferred-prefix"), 2000);
}

TEST(Simulation, WorkersOfTwoTypesRunAsFastAsEachCan) {
  Scenario s = cluster("deferred", 1, {model("m", 2, 10, 40)}, 400);
  s.workers = {{"slow", 1, 0}, {"fast", 1, 0}};
  s.models[0].latency = {LinearLatency{2, 10}, LinearLatency{1, 5}};
  const auto both = run(s);
  EXPECT_EQ(both->models[0].late, 0u);
  EXPECT_LT(both->worst_bad_rate(), 0.01);
  s.workers = {{"slow", 1, 0}};
  s.models[0].latency.pop_back();
  EXPECT_GT(run(s)->worst_bad_rate(), 0.01);
}

// Batches take longer or shorter than their profile says: what runs late until that is learned is
// late, and little after that.
TEST(Simulation, WrongProfilesAreLearned) {
  for (const double drift : {0.8, 1.04, 1.25}) {
    Scenario right = cluster("fermata", 4, {model("m", 1 * drift, 5 * drift, 30)}, 1200);
    Scenario wrong = cluster("fermata", 4, {model("m", 1, 5, 30)}, 1200);
    wrong.models[0].drift = drift;
    right.warmup = wrong.warmup = Duration::seconds(10);
    right.duration = wrong.duration = Duration::seconds(10);
    const auto known = run(right), learned = run(wrong);
    ASSERT_TRUE(known.ok() && learned.ok());
    const auto lost = [](const Result& r) {
      return static_cast<double>(r.models[0].offered - r.models[0].on_time) /
             static_cast<double>(r.models[0].offered);
    };
    EXPECT_LE(lost(*learned), lost(*known) + 0.01) << drift;
    wrong.models[0].drift = 1;
    const auto said = run(wrong);
    ASSERT_TRUE(said.ok());
    EXPECT_EQ(said->busy<learned->busy, drift> 1) << drift;
  }
}

TEST(Simulation, ARecordingSaysWhenBatchesTookLonger) {
  Scenario steady = cluster("fermata", 4, {model("m", 1, 5, 30)}, 400);
  Scenario measured = steady;
  steady.models[0].drift = 1.25;
  measured.models[0].measured =
      std::make_shared<MeasuredDrift>(MeasuredDrift{{{Duration::seconds(1), {1.25}}}});
  const auto as_said = run(steady), as_measured = run(measured);
  ASSERT_TRUE(as_said.ok() && as_measured.ok());
  EXPECT_EQ(as_said->busy, as_measured->busy);
  EXPECT_EQ(as_said->models[0].on_time, as_measured->models[0].on_time);
  const MeasuredDrift twice{{{Duration::seconds(1), {1}}, {Duration::seconds(2), {3}}}};
  EXPECT_EQ(twice.at(Duration()).ratio, 1);
  EXPECT_EQ(twice.at(Duration::seconds(2)).ratio, 3);
  EXPECT_EQ(twice.at(Duration::seconds(9)).ratio, 3);
}

// As in the server: two bad seconds raise what is expected of a run above the deadline, and nothing
// would run again to show that they are over.
TEST(Simulation, ALatencyThatRejectsEverythingIsDoubted) {
  Scenario s = cluster("fermata", 1, {model("m", 0, 10, 15)}, 20);
  s.duration = Duration::seconds(20);
  const auto second = [](int64_t at, double ratio) {
    return MeasuredDrift::Moment{Duration::seconds(at), {ratio}};
  };
  s.models[0].measured =
      std::make_shared<MeasuredDrift>(MeasuredDrift{{second(0, 1), second(1, 20), second(3, 1)}});
  const auto result = run(s);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->models[0].on_time, result->models[0].offered * 6 / 10);
}

// One request at a time, of 10 ms: what the server takes besides is in every answer, and counts
// for its deadline.
TEST(Simulation, ARecordingSaysWhatTheServerTakesItself) {
  const auto always = [](Duration took) {
    return std::make_shared<MeasuredDelay>(MeasuredDelay{{{Duration(), took}}});
  };
  Scenario s = cluster("fermata", 1, {model("m", 0, 10, 40)}, 10);
  s.models[0].arrival = UniformArrivals{};
  s.delays = {always(Duration::millis(2)), always(Duration::millis(5)),
              always(Duration::millis(1))};
  const auto with = run(s);
  ASSERT_TRUE(with.ok());
  EXPECT_NEAR(with->models[0].latency.quantile(0.5).millis(), 13, 0.2);
  EXPECT_EQ(with->models[0].on_time, with->models[0].offered);
  s.models[0].slo = Duration::from_millis(12.5);
  const auto tight = run(s);
  ASSERT_TRUE(tight.ok());
  EXPECT_EQ(tight->models[0].on_time, 0u);
  // A worker is free again only when that is known: 17 ms a request.
  s = cluster("eager", 1, {model("m", 0, 10, 300)}, 100);
  s.models[0].max_batch = 1;
  s.delays = {always(Duration::millis(2)), always(Duration::millis(5)), {}};
  const auto busy = run(s);
  ASSERT_TRUE(busy.ok());
  EXPECT_LT(busy->utilization(), 0.85);
  EXPECT_LT(busy->models[0].on_time, busy->models[0].offered);
}

TEST(Goodput, IsTheHighestGoodRateWithinHalfAPercent) {
  const Scenario s = cluster("deferred", 4, {model("m", 1, 5, 20)}, 1);
  const auto goodput = find_goodput(s);
  ASSERT_TRUE(goodput.ok());
  EXPECT_LE(goodput->result.worst_bad_rate(), kAllowedBadRate);
  double lowest_bad = 1e9;
  for (const GoodputStep& step : goodput->steps) {
    if (step.worst_bad_rate > kAllowedBadRate) {
      lowest_bad = std::min(lowest_bad, step.rate_rps);
    } else {
      EXPECT_LE(step.rate_rps, goodput->rate_rps);
    }
  }
  EXPECT_LE(lowest_bad / goodput->rate_rps, kRatePrecision);
}

TEST(Goodput, IsZeroWhereOneRequestAloneTakesTooLong) {
  const auto goodput = find_goodput(cluster("deferred", 4, {model("m", 10, 20, 25)}, 100));
  ASSERT_TRUE(goodput.ok());
  EXPECT_EQ(goodput->rate_rps, 0);
  EXPECT_EQ(goodput->binding, "slo_ms of 'm' is 25, one item alone takes 30 ms");
}

TEST(Goodput, IsLookedForFarBelowTheBoundBeforeThereIsNone) {
  // One request in fifty is to end sooner than it runs.
  Scenario s = cluster("deferred", 1, {model("m", 1, 5, 50)}, 1);
  s.models[0].demand.slos = {{0.98, Duration::millis(50)}, {0.02, Duration::millis(1)}};
  s.duration = Duration::seconds(60);
  const auto goodput = find_goodput(s);
  ASSERT_TRUE(goodput.ok());
  EXPECT_EQ(goodput->rate_rps, 0);
  EXPECT_LT(goodput->steps.back().rate_rps, goodput->steps.front().rate_rps / 1000);
  EXPECT_THAT(goodput->binding, testing::HasSubstr("bad_rate of 'm'"));
}

TEST(Runs, ImpossibleDeadlinesAskForNoWorkers) {
  SimulatedModel m = model("m", 1, 5, 50);
  m.demand.slos = {{0.06, Duration::millis(1)}, {0.94, Duration::millis(50)}};
  for (const std::string_view policy : {"fermata", "deferred"}) {
    const auto result = run(cluster(policy, 2, {m}, 800));
    EXPECT_GT(result->worst_bad_rate(), 0.04);
    EXPECT_EQ(write_result(*result)["autoscale"]["add_workers"], 0) << policy;
  }
}

TEST(Goodput, NeedsADeadline) {
  Scenario s = cluster("fermata", 1, {model("m", 1, 5, 50), model("n", 1, 5, 50)}, 1);
  s.models[0].slo = Duration::infinite();
  s.models[1].share = 0;  // nobody calls it
  EXPECT_THAT(std::string(find_goodput(s).status().message()), testing::HasSubstr("$: no service"));
}

TEST(Goodput, IsNotLookedForWhereARunWouldHardlyEnd) {
  Scenario s = cluster("fermata", 1, {model("m", 1e-6, 0, 50)}, 1);
  s.duration = Duration::seconds(60);
  EXPECT_THAT(std::string(find_goodput(s).status().message()),
              testing::HasSubstr("6e+09 requests in 60 s, expected at most 1e+09"));
}

TEST(Goodput, OfAPipelineWhoseModelsNobodyCalls) {
  Scenario s = cluster("fermata", 2, {model("m", 1, 5, 50)}, 1);
  s.models[0].share = 0;
  s.models[0].slo = Duration::infinite();
  s.pipelines = {{.name = "p", .slo = Duration::millis(100)}};
  s.pipelines[0].stages = {{.name = "one", .service_name = "m"},
                           {.name = "two", .service_name = "m", .after = {0}}};
  const auto goodput = find_goodput(s);
  ASSERT_TRUE(goodput.ok()) << goodput.status();
  EXPECT_GT(goodput->rate_rps, 100);
  EXPECT_LE(goodput->rate_rps, rate_bound(s));
}

}  // namespace
}  // namespace fermata::simulate
