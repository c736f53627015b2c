#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "plan/variants/group_problem.h"
#include "policy/scheduler.h"
#include "simulate/checkers.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"

namespace fermata::simulate {
namespace {

using testing::IsEmpty;

Example example(uint32_t label, std::vector<uint32_t> evidence, std::vector<bool> correct) {
  return {label, std::move(evidence), std::move(correct), label == 0};
}

// A fast variant that knows class 0, and an accurate one; one example without evidence.
SimulatedVariants application(std::string name, double slo_ms) {
  SimulatedVariants a;
  a.name = std::move(name);
  a.slo = Duration::from_millis(slo_ms);
  a.penalty = {plan::PenaltyShape::kStep};
  a.prior = {0.5, 0.5};
  a.variants = {{.name = a.name + "-fast",
                 .latency = {LinearLatency{0.4, 1.5}},
                 .max_batch = 16,
                 .accuracy = 0.7,
                 .recall = {0.95, 0.45}},
                {.name = a.name + "-accurate",
                 .latency = {LinearLatency{3, 6}},
                 .max_batch = 16,
                 .accuracy = 0.93,
                 .recall = {0.95, 0.91}}};
  a.short_circuit = 0.5;
  a.evidence_delay = Duration::millis(2);
  a.examples = {example(0, {5, 0}, {true, true}), example(0, {4, 1}, {true, true}),
                example(1, {0, 5}, {false, true}), example(1, {}, {false, true})};
  return a;
}

SimulatedModel model() {
  return {.name = "plain",
          .latency = {LinearLatency{1, 4}},
          .slo = Duration::millis(40),
          .max_batch = 32};
}

// A plain model, a service of its own variants, and one that shares the model.
Scenario mixed(std::string_view scheduler, double rate_rps) {
  Scenario s;
  s.scheduler = scheduler;
  s.workers = {{"default", 2, 0}};
  s.models = {model()};
  s.variants = {application("a", 60), application("b", 45)};
  s.variants[1].penalty = {plan::PenaltyShape::kSigmoid};
  SimulatedVariant& shared = s.variants[1].variants[0];
  shared.name = "plain";
  shared.model = 0;
  shared.latency = s.models[0].latency;
  shared.max_batch = s.models[0].max_batch;
  s.rate_rps = rate_rps;
  s.warmup = Duration::millis(100);
  s.duration = Duration::millis(400);
  return s;
}

bool published(std::string_view name) {
  const auto names = plan::published_group_policy_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What holds where everything is served, late or not, too.
Findings check_served(const Scenario& scenario, const Trace& trace) {
  if (!published(scenario.scheduler)) return check_always(scenario, trace);
  Findings all;
  for (const auto check :
       {check_conservation, check_workers, check_batches, check_short_circuits}) {
    const Findings found = check(scenario, trace);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

class AnyPolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(AnyPolicy, KeepsWhatTheCheckersAskOfVariants) {
  for (const double rate : {100.0, 700.0}) {
    for (const double memory_mb : {0.0, 600.0}) {  // 500 beside the model
      Scenario s = mixed(GetParam(), rate);
      s.models[0].static_mb = 60;
      s.models[0].dynamic_mb = 40;
      s.workers[0].memory_mb = memory_mb;
      for (SimulatedVariants& a : s.variants) {
        a.variants[1].memory_mb = 300;
        a.variants[1].load = Duration::millis(8);
      }
      Trace trace;
      const auto result = run(s, {.trace = &trace});
      ASSERT_TRUE(result.ok()) << result.status();
      ASSERT_THAT(check_served(s, trace), IsEmpty()) << rate << " " << memory_mb;
      for (const ModelResult& m : result->models) {
        ASSERT_EQ(m.offered, m.on_time + m.late + m.dropped);
        if (!m.variants) continue;
        uint64_t answered = m.variants->short_circuited;
        for (const auto& [name, count] : m.variants->variants) answered += count;
        ASSERT_EQ(answered, m.variants->answered);
        ASSERT_EQ(m.variants->answered, m.on_time + m.late);
        ASSERT_LE(m.variants->correct, answered);
      }
      const auto again = run(s);
      ASSERT_EQ(again->hash, result->hash);
      ASSERT_EQ(again->events, result->events);
    }
  }
}

TEST_P(AnyPolicy, RunsOnWorkersOfTwoTypesAndWithoutRecalls) {
  Scenario s = mixed(GetParam(), 300);
  s.workers = {{"slow", 1, 0}, {"fast", 2, 400}};
  s.models[0].latency = {LinearLatency{1, 4}, LinearLatency{0.5, 2}};
  for (SimulatedVariants& a : s.variants) {
    for (SimulatedVariant& v : a.variants) {
      v.latency = {LinearLatency{1, 6}, LinearLatency{0.2, 1}};
      v.recall.clear();
    }
  }
  s.variants[1].variants[0].latency = s.models[0].latency;
  Trace trace;
  const auto result = run(s, {.trace = &trace});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(check_conservation(s, trace), IsEmpty());
  EXPECT_THAT(check_workers(s, trace), IsEmpty());
  EXPECT_THAT(check_batches(s, trace), IsEmpty());
  EXPECT_THAT(check_short_circuits(s, trace), IsEmpty());
}

// The slow worker, which is asked first, ends nothing in time.
TEST(SimulatedVariantsServices, GoToTheTypeOfWorkerThatIsInTime) {
  Scenario s = mixed("fermata", 30);
  s.workers = {{"slow", 1, 0}, {"fast", 1, 0}};
  const auto too_slow = [](std::vector<LatencyModel>& latency) {
    latency = {LinearLatency{0, 5000}, latency[0]};
  };
  for (SimulatedModel& m : s.models) too_slow(m.latency);
  for (SimulatedVariants& a : s.variants) {
    a.penalty.shape = plan::PenaltyShape::kStep;
    for (SimulatedVariant& v : a.variants) too_slow(v.latency);
  }
  const auto result = run(s);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const ModelResult& m : result->models) {
    EXPECT_GT(m.on_time, m.offered * 0.97) << m.name;
  }
}

std::vector<std::string_view> those_with_variants() {
  std::vector<std::string_view> names = policy::all_scheduler_names();
  std::erase_if(names, [](std::string_view name) {
    return !(*policy::make_scheduler(name))->serves(policy::Kind::kVariants);
  });
  std::erase(names, "nexus");
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, AnyPolicy, testing::ValuesIn(those_with_variants()),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SimulatedVariantsServices, NexusRefusesThem) {
  const auto result = run(mixed("nexus", 100));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(), "scheduler 'nexus', expected one that serves applications");
}

Scenario one(std::string_view scheduler, double rate_rps) {
  Scenario s = mixed(scheduler, rate_rps);
  s.models.clear();
  s.variants = {application("a", 60)};
  return s;
}

TEST(SimulatedVariantsServices, AnIdleClusterAnswersWithTheAccurateVariant) {
  const auto result = run(one("fermata", 20));
  const VariantsResult& a = *result->models[0].variants;
  EXPECT_EQ(a.variants.count("a-fast"), 0u);
  EXPECT_EQ(a.correct, a.answered);
}

TEST(SimulatedVariantsServices, UnderLoadWhoCanDoWithTheFastVariantGetsIt) {
  const auto result = run(one("fermata", 1200));
  const VariantsResult& a = *result->models[0].variants;
  EXPECT_GT(a.variants.at("a-fast"), 100u);
  EXPECT_LT(result->models[0].bad_rate(), 0.05);
}

// A batch of sixteen on the accurate variant takes longer than a plain request can wait, and
// there is work for both workers all the time.
TEST(SimulatedVariantsServices, DoNotCrowdOutPlainServices) {
  Scenario s = mixed("fermata", 500);
  s.models[0].latency = {LinearLatency{0.5, 3}};
  s.models[0].slo = Duration::millis(25);
  s.variants[1] = application("b", 60);
  for (SimulatedVariants& a : s.variants) a.variants[1].latency = {LinearLatency{2, 8}};
  s.duration = Duration::seconds(3);
  const auto result = run(s);
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->models[0].offered, 400u);
  EXPECT_LT(result->models[0].bad_rate(), 0.01);
}

TEST(SimulatedVariantsServices, EvidenceThatComesTooLateIsNoEvidence) {
  Scenario s = one("fermata", 300);
  s.variants[0].evidence_delay = Duration::seconds(3);
  s.variants[0].short_circuit.reset();
  Scenario blind = s;
  blind.variants[0].evidence_delay = Duration();
  for (Example& e : blind.variants[0].examples) e.evidence.clear();
  EXPECT_EQ(run(s)->hash, run(blind)->hash);
}

TEST(SimulatedVariantsServices, LabelsSayHowOftenEachClassComes) {
  Scenario s = one("fermata", 1000);
  s.variants[0].labels = {1, 0};
  const auto result = run(s);  // whoever answers class 0 is right
  EXPECT_EQ(result->models[0].variants->correct, result->models[0].variants->answered);
  s.variants[0].labels = {0, 1};
  EXPECT_LT(run(s)->models[0].variants->correct, run(s)->models[0].variants->answered);
}

TEST(SimulatedVariantsServices, LabelsChangeWhenTheyAreToldTo) {
  Scenario s = one("fermata", 1000);
  s.warmup = Duration();
  s.variants[0].labels = {0, 1};
  const auto before = run(s)->models[0];
  s.variants[0].label_changes = {{Time() + s.duration / 2, {1, 0}},
                                 {Time() + s.duration * 2, {0, 1}}};
  const auto after = run(s)->models[0];
  const auto wrong = [](const ModelResult& m) {
    return m.variants->answered - m.variants->correct;
  };
  EXPECT_EQ(after.offered, before.offered);
  EXPECT_GT(wrong(after), 0u);
  EXPECT_LT(wrong(after), wrong(before));  // whoever answers class 0 is right
}

TEST(SimulatedVariantsServices, DeadlinesSpreadAboutTheirMean) {
  Scenario s = one("lo-edf", 1000);
  s.duration = Duration::seconds(2);
  s.variants[0].slo_deviation = Duration::millis(30);
  Trace trace;
  ASSERT_TRUE(run(s, {.trace = &trace}).ok());
  double count = 0, sum = 0, squares = 0, least = 1e9;
  for (const TraceEvent& e : trace) {
    if (e.kind != TraceEvent::kArrived) continue;
    const double ms = (e.end - e.at).millis();
    ++count;
    sum += ms;
    squares += ms * ms;
    least = std::min(least, ms);
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, 60, 3);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 30, 3);
  EXPECT_DOUBLE_EQ(least, 6);
}

TEST(SimulatedVariantsServices, SomeSpreadDeadlinesAreTooShort) {
  Scenario s = one("lo-edf", 5);  // alone the accurate variant takes 9 ms, the fast one 1.9
  s.groups.window = Duration();
  s.duration = Duration::seconds(20);
  s.variants[0].slo = Duration::millis(10);
  EXPECT_EQ(run(s)->models[0].late, 0);
  s.variants[0].slo_deviation = Duration::millis(10);
  EXPECT_GT(run(s)->models[0].late, 5);
}

TEST(SimulatedVariantsServices, EveryVariantFitsBesideTheModels) {
  Scenario s = mixed("fermata", 100);
  s.workers[0].memory_mb = 400.5;
  s.models[0].static_mb = 60;
  s.models[0].dynamic_mb = 40;
  s.variants[1].variants[1].memory_mb = 300.5;
  EXPECT_EQ(s.memory_violation(), "");
  EXPECT_TRUE(run(s).ok());
  s.workers[0].memory_mb = 400;
  EXPECT_EQ(s.memory_violation(),
            "memory_mb of workers 0 is 400, its models need 100, variant 'b-accurate' 300.5");
}

// The checkers see what is wrong.
TEST(Checkers, FindABatchThatForgetsToLoadAndAStranger) {
  Scenario s = one("fermata", 50);
  s.workers[0].memory_mb = 500;
  s.variants[0].variants[1].memory_mb = 300;
  s.variants[0].variants[1].load = Duration::millis(8);
  Trace trace;
  ASSERT_TRUE(run(s, {.trace = &trace}).ok());
  ASSERT_THAT(check_always(s, trace), IsEmpty());
  Trace forgetful = trace;
  for (TraceEvent& e : forgetful) e.load = false;
  EXPECT_FALSE(check_workers(s, forgetful).empty());
  Trace endless = trace;
  std::erase_if(endless, [](const TraceEvent& e) { return e.kind == TraceEvent::kTaken; });
  EXPECT_FALSE(check_conservation(s, endless).empty());
}

std::string refused(const std::string& fields) {
  auto document = Document::parse(R"({"workers": {"count": 1}, "rate_rps": 10, "applications": [{
    "name": "a", "slo_ms": 50, "penalty": "step", "prior": [0.5, 0.5],
    "variants": [{"name": "v", "latency_ms": {"alpha": 1, "beta": 2}, "accuracy": 0.9,
                  "recall": [0.9, 0.8]}],
    "examples": [{"label": 0, "evidence": [1, 0], "correct": [true]}])" +
                                  fields + "}]}");
  if (!document.ok()) return std::string(document.status().message());
  return std::string(document->read(read_scenario).status().message());
}

TEST(VariantsDocument, ARateThatIsNextToNothingIsRefused) {
  auto document = Document::parse(R"({"workers": {"count": 1}, "rate_rps": 10, "models": [
    {"name": "m", "latency_ms": {"alpha": 1, "beta": 2}, "slo_ms": 50},
    {"name": "n", "latency_ms": {"alpha": 1, "beta": 2}, "slo_ms": 50, "share": 1e-12}]})");
  EXPECT_THAT(std::string(document->read(read_scenario).status().message()),
              testing::AllOf(testing::StartsWith("$.rate_rps: 10"), testing::HasSubstr("'n'")));
}

TEST(VariantsDocument, AShareThatIsNextToNothingIsRefusedWithoutARateToo) {
  auto document = Document::parse(R"({"workers": {"count": 1}, "models": [
    {"name": "m", "latency_ms": {"alpha": 1, "beta": 2}, "slo_ms": 50, "share": 1e12},
    {"name": "n", "latency_ms": {"alpha": 1, "beta": 2}, "slo_ms": 50, "share": 1e-12}]})");
  EXPECT_THAT(std::string(document->read(read_goodput_scenario).status().message()),
              testing::HasSubstr("'n'"));
}

TEST(VariantsDocument, NeedsARateUnlessEveryArrivalIsATrace) {
  const std::string trace = testing::TempDir() + "/applications_test.trace";
  std::ofstream(trace) << "40\n60\n";
  const std::string arrival = R"("arrival": {"process": "trace", "file": ")" + trace + R"("})";
  const auto rate_of = [&](const std::string& application) {
    auto document = Document::parse(R"({"workers": {"count": 1}, "models": [{
      "name": "m", "latency_ms": {"alpha": 1, "beta": 2}, "slo_ms": 50, )" +
                                    arrival + R"(}],
      "applications": [{"name": "a", "slo_ms": 50, "penalty": "step",
      "variants": [{"name": "v", "latency_ms": {"alpha": 1, "beta": 2}, "accuracy": 0.9}],
      "examples": [{"label": 0, "correct": [true]}])" +
                                    application + "}]}");
    return document->read(read_scenario);
  };
  const auto both = rate_of(", " + arrival);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rate_rps, 100);
  EXPECT_EQ(both->rate_of(both->variants[0].share), 50);
  EXPECT_THAT(std::string(rate_of("").status().message()),
              testing::StartsWith("$.rate_rps: missing"));
}

TEST(VariantsDocument, SaysWhereItIsWrong) {
  EXPECT_EQ(refused(""), "");
  const std::string a = "$.applications[0]";
  EXPECT_EQ(refused(R"(, "labels": [1, 1])"),
            a + ".labels: a list of 2, expected 1 weights, one for each class of the examples");
  EXPECT_EQ(refused(R"(, "labels": [0])"), a + ".labels: a list of 1, expected a weight above 0");
  EXPECT_EQ(
      refused(R"(, "label_changes": [{"at_s": 2, "labels": [1]}, {"at_s": 2, "labels": [1]}])"),
      a + ".label_changes[1].at_s: 2, expected a time after the change before");
  EXPECT_EQ(refused(R"(, "label_changes": [{"at_s": 2, "labels": [1, 1]}])"),
            a + ".label_changes[0].labels: a list of 2, expected 1 weights, one for each class of "
                "the examples");
  EXPECT_EQ(refused(R"(, "evidence_delay_ms": -1)"),
            a + ".evidence_delay_ms: -1, expected a number from 0 to 100000000");
  EXPECT_EQ(refused(R"(, "short_circuit": {"accuracy": 2})"),
            a + ".short_circuit.accuracy: 2, expected a number from 0 to 1");
}

}  // namespace
}  // namespace fermata::simulate
