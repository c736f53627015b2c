#include <gmock/gmock.h>

#include "policy/scheduler.h"
#include "simulate/checkers.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"

namespace fermata::simulate {
namespace {

using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;

constexpr std::string_view kPublished[] = {"schemble", "greedy-edf", "greedy-fifo", "greedy-sjf",
                                           "original", "static",     "selected"};

SimulatedVariant base_model(std::string name, double alpha, double beta) {
  return {.name = std::move(name), .latency = {LinearLatency{alpha, beta}}, .max_batch = 16};
}

// Three models; easy queries are answered by any of them, hard ones only by the slow two or all.
SimulatedEnsemble ensemble(std::string name, double slo_ms) {
  SimulatedEnsemble e;
  e.name = std::move(name);
  e.slo = e.slo_most = Duration::from_millis(slo_ms);
  e.models = {base_model(e.name + "-a", 1, 4), base_model(e.name + "-b", 2, 9),
              base_model(e.name + "-c", 2, 13)};
  e.utility = {{0, 0.97, 0.98, 0.99, 0.98, 0.99, 1, 1}, {0, 0.4, 0.6, 0.7, 0.65, 0.75, 0.9, 1}};
  e.bins = {0.7, 0.3};
  e.score_delay = Duration::millis(1);
  e.fixed = 0b011;
  for (int i = 0; i < 7; ++i) e.examples.push_back({{0, 0b001}, std::vector<bool>(8, true)});
  e.examples.push_back({{1, 0b110}, {false, false, true, true, true, true, true, true}});
  e.examples.push_back({{1, 0b111}, {false, false, false, false, false, false, true, true}});
  e.examples.push_back({{1, 0}, {false, false, false, false, false, false, false, true}});
  for (EnsembleExample& example : e.examples) example.correct[0] = false;
  return e;
}

Scenario scenario(std::string_view scheduler, double rate_rps, uint32_t workers = 3) {
  Scenario s;
  s.scheduler = scheduler;
  s.workers = {{"default", workers, 0}};
  s.ensembles = {ensemble("e", 45)};
  s.rate_rps = rate_rps;
  s.warmup = Duration::millis(100);
  s.duration = Duration::seconds(2);
  return s;
}

Result checked(const Scenario& s) {
  Trace trace;
  const auto result = run(s, {.trace = &trace});
  EXPECT_TRUE(result.ok()) << result.status();
  const Findings found =
      s.ensembles[0].serve_all ? check_ensembles(s, trace) : check_always(s, trace);
  EXPECT_THAT(found, IsEmpty()) << s.scheduler;
  return *result;
}

double accuracy(const Result& result) {
  const ModelResult& m = result.models.back();
  return static_cast<double>(m.ensemble->correct) / static_cast<double>(m.offered);
}

// The slow worker, which is asked first, ends nothing in time.
TEST(Ensembles, GoToTheTypeOfWorkerThatIsInTime) {
  Scenario s = scenario("fermata", 30);
  s.workers = {{"slow", 1, 0}, {"fast", 2, 0}};
  for (SimulatedVariant& m : s.ensembles[0].models) {
    m.latency = {LinearLatency{1, 500}, m.latency[0]};
  }
  const Result result = checked(s);
  EXPECT_EQ(result.models[0].on_time, result.models[0].offered);
  EXPECT_GT(accuracy(result), 0.95);
}

// The slow workers alone take longer than the deadline: work that can wait leaves the fast ones.
TEST(Ensembles, KeepTheFastWorkersBesideLongBestEffortWork) {
  Scenario s = scenario("fermata", 51);
  s.workers = {{"fast", 4, 0}, {"slow", 2, 0}};
  s.duration = Duration::seconds(20);
  SimulatedEnsemble& e = s.ensembles[0];
  e.slo = e.slo_most = Duration::millis(60);
  e.share = 50;
  e.score_delay = Duration();
  for (SimulatedVariant& m : e.models) {
    m.latency = {LinearLatency{1, 19}, LinearLatency{10, 60}};
    m.max_batch = 1;
  }
  SimulatedModel patient{.name = "patient",
                         .latency = {LinearLatency{5000, 0}, LinearLatency{5000, 0}},
                         .slo = Duration::infinite(),
                         .max_batch = 1};
  s.models = {patient};
  const Result result = checked(s);
  const auto found = std::find_if(result.models.begin(), result.models.end(),
                                  [](const ModelResult& m) { return m.ensemble.has_value(); });
  EXPECT_GE(found->on_time, 0.95 * static_cast<double>(found->offered));
}

TEST(Ensembles, KeepEveryRuleUnderEveryMethodAtAnyLoad) {
  for (const std::string_view scheduler : kPublished) {
    for (const double rate : {20.0, 150.0, 600.0}) {
      for (const uint32_t workers : {1u, 2u, 3u, 5u}) checked(scenario(scheduler, rate, workers));
    }
  }
  for (const double rate : {20.0, 150.0, 600.0, 2000.0}) {
    for (const uint32_t workers : {1u, 2u, 3u, 5u}) checked(scenario("fermata", rate, workers));
  }
}

TEST(Ensembles, RunEveryModelWhereThereIsTime) {
  for (const std::string_view scheduler : {"fermata", "schemble", "original"}) {
    Scenario s = scenario(scheduler, 2);
    s.ensembles[0].arrival = UniformArrivals();
    const Result result = checked(s);
    EXPECT_THAT(result.models.back().ensemble->subsets, ElementsAre(testing::Key("e-a+e-b+e-c")));
    EXPECT_EQ(accuracy(result), 1) << scheduler;
  }
}

TEST(Ensembles, KnowHowDifficultQueriesAreInABurst) {
  Scenario s = scenario("schemble", 120);
  const double with_scores = accuracy(checked(s));
  const double original = accuracy(checked(scenario("original", 120)));
  EXPECT_THAT(with_scores, Ge(original + 0.3));
  s.ensembles[0].score_delay.reset();
  EXPECT_THAT(accuracy(checked(s)), Le(with_scores));
}

TEST(Ensembles, OfManyQueriesShareBatches) {
  for (const double rate : {60.0, 120.0, 240.0, 480.0}) {
    const double published = accuracy(checked(scenario("schemble", rate)));
    EXPECT_THAT(accuracy(checked(scenario("fermata", rate))), Ge(published)) << rate;
  }
}

// Two requests in 25 s: of each all items come at once, and nothing comes for long.
TEST(Ensembles, AnswerARequestOfManyItems) {
  Scenario s = scenario("fermata", 0.2, 1);
  s.ensembles[0] = ensemble("e", 20'000);
  s.ensembles[0].arrival = UniformArrivals();
  s.ensembles[0].demand.items = {{1, 200}};
  s.warmup = Duration();
  s.duration = Duration::seconds(12);
  const Result result = checked(s);
  EXPECT_GT(result.models.back().offered, 0u);
  EXPECT_EQ(result.models.back().on_time, result.models.back().offered);
}

// Where one item is rejected nobody waits for the others, which have begun to run.
TEST(Ensembles, RequestsOfSeveralItemsEndOnceBeyondCapacity) {
  for (const std::string_view scheduler : {"fermata", "schemble", "greedy-edf"}) {
    Scenario s = scenario(scheduler, 400, 1);
    s.ensembles[0].demand.items = {{1, 2}};
    const Result result = checked(s);
    EXPECT_GT(result.models[0].dropped, 0u) << scheduler;
  }
}

TEST(Ensembles, ThatServeAllDropNothing) {
  for (const std::string_view scheduler : {"fermata", "schemble", "original", "greedy-fifo"}) {
    Scenario s = scenario(scheduler, 300);
    s.ensembles[0].serve_all = true;
    const Result result = checked(s);
    EXPECT_EQ(result.models[0].dropped, 0u);
    EXPECT_EQ(result.models[0].on_time + result.models[0].late, result.models[0].offered);
  }
}

// Far beyond what the workers bear, those that are worth nothing alone must not wait for ever.
TEST(Ensembles, ThatServeAllServeTheWorthlessToo) {
  Scenario s = scenario("fermata", 900, 1);
  s.duration = Duration::millis(500);
  s.ensembles[0].serve_all = true;
  s.ensembles[0].utility[1] = {0, 0, 0, 0, 0, 0, 0, 1};
  const Result result = checked(s);
  EXPECT_EQ(result.models[0].on_time + result.models[0].late, result.models[0].offered);
}

TEST(Ensembles, OfOneModelNeedNoSelector) {
  Scenario s = scenario("selected", 60);
  SimulatedEnsemble& e = s.ensembles[0];
  e.models.resize(1);
  e.utility = {{0, 1}};
  e.bins = {1};
  e.fixed = 0;
  e.examples = {{{0, 0b1}, {false, true}}};
  EXPECT_EQ(accuracy(checked(s)), 1);
}

TEST(Ensembles, ServeAllWhateverTheProfileSays) {
  for (const std::string_view scheduler : {"fermata", "schemble", "greedy-edf"}) {
    Scenario s = scenario(scheduler, 60);
    s.ensembles[0].serve_all = true;
    for (auto& row : s.ensembles[0].utility) row.assign(row.size(), 0);
    EXPECT_EQ(checked(s).models[0].dropped, 0u);
  }
}

TEST(Ensembles, ShareWorkersAndBatchesWithOtherServices) {
  Scenario s = scenario("fermata", 300, 2);
  s.models = {{.name = "plain",
               .latency = {LinearLatency{2, 9}},
               .slo = Duration::millis(60),
               .max_batch = 16}};
  s.ensembles[0].models[1].model = 0;
  s.ensembles[0].models[1].name = "plain";
  Trace trace;
  const auto result = run(s, {.trace = &trace});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(check_always(s, trace), IsEmpty());
  EXPECT_THAT(result->models[0].bad_rate(), Le(0.05));
  std::map<uint64_t, KeyId> key_of;
  uint64_t mixed = 0, together = 0;
  for (const TraceEvent& e : trace) {
    if (e.kind == TraceEvent::kArrived) key_of[e.job.value()] = e.key;
    if (e.kind == TraceEvent::kStarted) together = 0;
    if (e.kind == TraceEvent::kTaken) together |= uint64_t{1} << key_of[e.job.value()].value();
    if (std::popcount(together) > 1) ++mixed;
  }
  EXPECT_GT(mixed, 0u);
}

TEST(Ensembles, GiveTheSameRunAgain) {
  const Scenario s = scenario("fermata", 200);
  EXPECT_EQ(checked(s).hash, checked(s).hash);
}

absl::StatusOr<Scenario> read_ensemble(std::string_view ensemble,
                                       std::string_view scheduler = "fermata") {
  const std::string text =
      std::string(R"({"workers": {"count": 2}, "rate_rps": 10, "scheduler": ")") +
      std::string(scheduler) + R"(", "ensembles": [)" + std::string(ensemble) + "]}";
  auto document = Document::parse(text);
  EXPECT_TRUE(document.ok()) << document.status();
  return document->read(read_scenario);
}

TEST(EnsembleDocument, SaysWhatIsWrongAndWhere) {
  const std::string start = R"({"name": "e", "slo_ms": 50, "models": [
      {"name": "a", "latency_ms": {"alpha": 1, "beta": 2}},
      {"name": "b", "latency_ms": {"alpha": 1, "beta": 2}}], )";
  const auto good = read_ensemble(start + R"("profile": [{"utility": {"a": 0.5, "a+b": 1}}],
      "static": ["b"], "examples": [{"correct": [true, false, true], "selected": ["a"]}]})");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(good->ensembles[0].utility, ElementsAre(ElementsAre(0, 0.5, 0, 1)));
  EXPECT_EQ(good->ensembles[0].fixed, 0b10u);
  EXPECT_EQ(good->ensembles[0].examples[0].difficulty.selected, 0b01u);
  const std::pair<std::string, std::string> wrong[] = {
      {R"("profile": [{"utility": {"a": 1}}], "static": [], "examples": [{"correct": [true, true, true]}]})",
       "static: a list of 0, expected a list of at least 1"},
      {R"("profile": [{"utility": {"a": 1}}], "examples": [{"correct": [true, true, true]}],
       "items": {"1": 1, "01": 1}})",
       "items.01: 1, expected no such field, but numbers of items"},
      {R"("profile": [{"utility": {"a": 1}}], "examples": [{"correct": [true, true, true]}],
       "items": {"1": 1e308}})",
       "expected a number from 0 to 1000000000000"},
      {R"("profile": [{"utility": {"b+a": 1}}], "examples": [{"correct": [true, true, true]}]})",
       "profile[0].utility[\"b+a\"]"},
      {R"("profile": [{"utility": {"a": 1.5}}], "examples": [{"correct": [true, true, true]}]})",
       "profile[0].utility.a"},
      {R"("profile": [{"share": 0.4, "utility": {"a": 1}}], "examples": [{"correct": [true, true, true]}]})",
       "shares that sum to 1"},
      {R"("profile": [{"utility": {"a": 1}}], "examples": [{"correct": [true]}]})",
       "examples[0].correct"},
      {R"("profile": [{"utility": {"a": 1}}], "examples": [{"bin": 1, "correct": [true, true, true]}]})",
       "examples[0].bin"},
      {R"("profile": [{"utility": {"a": 1}}], "examples": []})", "examples"},
  };
  for (const auto& [rest, expected] : wrong) {
    EXPECT_THAT(std::string(read_ensemble(start + rest).status().message()), HasSubstr(expected));
  }
  const auto unselected = read_ensemble(start + R"("profile": [{"utility": {"a": 1}}],
      "examples": [{"correct": [true, true, true]}]})",
                                        "selected");
  EXPECT_THAT(std::string(unselected.status().message()), HasSubstr("score_delay_ms"));
}

}  // namespace
}  // namespace fermata::simulate
