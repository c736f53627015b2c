// Scenarios of every kind of service at once, on 1 to 64 workers, below and beyond what these can
// do: judged by the simulator's checkers, which know the scenario, and by those that see what the
// scheduler was told and decided.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/random.h"
#include "policy/story.h"
#include "simulate/checkers.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"

namespace fermata::simulate {
namespace {

using testing::IsEmpty;

constexpr std::string_view kEverything = R"(
scheduler: {}
seed: {}
workers: {{count: {}}}
warmup_s: 0
duration_s: {:.3f}
rate_rps: {:.1f}
models:
  - {{name: fast, latency_ms: {{alpha: 1, beta: 4}}, slo_ms: {{mix: [{{share: 0.7, slo_ms: {}}}, {{share: 0.3, slo_ms: null}}]}}, share: 2, max_batch: 16}}
  - {{name: slow, latency_ms: {{alpha: 2, beta: 18}}, slo_ms: 120, share: 1, items: {{"1": 0.9, "20": 0.1}}, max_batch: 8}}
applications:
  - name: signs
    slo_ms: {}
    share: 2
    penalty: step
    prior: [0.5, 0.5]
    variants:
      - {{name: exact, latency_ms: {{alpha: 3, beta: 9}}, accuracy: 0.95, recall: [0.95, 0.95]}}
      - {{model: fast, accuracy: 0.8, recall: [0.99, 0.5]}}
    examples:
      - {{label: 0, evidence: [5, 0], correct: [true, true]}}
      - {{label: 1, evidence: [1, 4], correct: [true, false]}}
  - name: either
    slo_ms: 90
    share: 0.5
    penalty: step
    variants:
      - {{service: chain, accuracy: 0.9}}
      - {{service: fast, accuracy: 0.7}}
    examples: [{{label: 0, correct: [true, false]}}]
ensembles:
  - name: scans
    slo_ms: 70
    share: 1
    items: {{"1": 0.8, "5": 0.2}}
    models:
      - {{name: a, latency_ms: {{alpha: 1, beta: 5}}}}
      - {{model: slow}}
    profile:
      - {{share: 0.6, utility: {{a: 0.9, slow: 0.9, a+slow: 1}}}}
      - {{share: 0.4, utility: {{a: 0.6, slow: 0.7, a+slow: 0.9}}}}
    examples: [{{bin: 0, correct: [true, true, true]}}, {{bin: 1, correct: [false, true, true]}}]
  - name: both
    slo_ms: 110
    share: 0.5
    models: [{{service: signs}}, {{service: fast}}]
    profile: [{{share: 1, utility: {{signs: 0.8, fast: 0.6, signs+fast: 0.9}}}}]
    examples: [{{correct: [true, false, true]}}]
pipelines:
  - {{name: chain, slo_ms: 150, share: 1, stages: [{{name: x, service: fast, makes: {{"0": 0.2, "1": 0.5, "3": 0.3}}}}, {{name: y, service: slow}}]}}
  - {{name: deep, slo_ms: 300, share: 0.5, stages: [{{name: x, service: chain}}, {{name: y, service: scans}}]}}
  - name: wide
    slo_ms: 400
    share: 0.5
    adapter: {{alpha: 10, interval_s: 1}}
    stages:
      - {{name: x, service: fast, makes: {{"0": 0.1, "1": 0.4, "30": 0.5}}}}
      - name: y
        variants:
          - {{name: light, latency_ms: {{alpha: 0.5, beta: 2}}, accuracy: 0.6, max_batch: 8}}
          - {{name: heavy, latency_ms: {{alpha: 2, beta: 6}}, accuracy: 0.9, max_batch: 4}}
)";

TEST(Storm, AllKindsTogetherKeepEveryRule) {
  for (const char* scheduler : {"fermata", "deferred", "eager"}) {
    for (uint64_t seed = 1; seed <= 7; ++seed) {
      Random random(seed);
      const int workers = 1 << (seed - 1);
      const double rate = workers * (30 + 120 * random.uniform());
      const std::string text = fmt::format(kEverything, scheduler, seed, workers, 500 / rate, rate,
                                           20 + random.below(60), 30 + random.below(60));
      auto document = Document::parse(text);
      ASSERT_TRUE(document.ok()) << document.status();
      const auto scenario = document->read(read_scenario);
      ASSERT_TRUE(scenario.ok()) << scenario.status();
      Trace trace;
      policy::Story story;
      story.until = Time() + scenario->warmup + scenario->duration;
      const auto result =
          run(*scenario, {.trace = &trace, .listener = [&](std::unique_ptr<policy::Scheduler> s) {
                            return std::make_unique<policy::Teller>(std::move(s), story);
                          }});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_THAT(check_always(*scenario, trace), IsEmpty()) << scheduler << " " << workers;
      for (const policy::Check check : policy::kChecks) {
        EXPECT_THAT(check(story), IsEmpty()) << scheduler << " on " << workers;
      }
    }
  }
}

}  // namespace
}  // namespace fermata::simulate
