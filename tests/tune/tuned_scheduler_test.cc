#include "tune/tuned_scheduler.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "simulate/checkers.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"
#include "tune/rule_trial.h"

namespace fermata::tune {
namespace {

using testing::IsEmpty;

simulate::Scenario scenario(std::string_view text) {
  auto document = Document::parse(text);
  FERMATA_CHECK(document.ok());
  auto made = document->read(simulate::read_scenario);
  FERMATA_CHECK(made.ok());
  return *std::move(made);
}

// Two workers, a long model among short ones, where some rows lose half: the default is near the
// best.
constexpr std::string_view kLongAmongShort = R"(
seed: 3
warmup_s: 50
duration_s: 40
workers: {count: 2}
rate_rps: 118
models:
  - {name: a, latency_ms: {alpha: 0.59, beta: 6.78}, slo_ms: 290, share: 48}
  - {name: b, latency_ms: {alpha: 1.1, beta: 0.5}, slo_ms: 9.7, share: 14}
  - {name: c, latency_ms: {alpha: 4.1, beta: 5.2}, slo_ms: 321, share: 10}
  - {name: long, latency_ms: {alpha: 7.5, beta: 82}, slo_ms: 1352, share: 33}
  - {name: d, latency_ms: {alpha: 4.5, beta: 3.5}, slo_ms: 44, share: 10}
)";
// Bursts that fill one worker: what starts at once and drops nobody for a batch loses less.
constexpr std::string_view kBursts = R"(
seed: 4
warmup_s: 20
duration_s: 40
workers: {count: 2}
rate_rps: 330
models:
  - {name: a, latency_ms: {alpha: 1.2, beta: 2.5}, slo_ms: 17, share: 1, arrival: {process: gamma, shape: 0.1}}
  - {name: b, latency_ms: {alpha: 2.9, beta: 4.9}, slo_ms: 225, share: 0.5, arrival: {process: gamma, shape: 0.1}}
)";
// Too much for a worker: rows differ by ten times.
constexpr std::string_view kOverload = R"(
seed: 5
warmup_s: 20
duration_s: 40
workers: {count: 1}
rate_rps: 900
models:
  - {name: a, latency_ms: {alpha: 0.5, beta: 12}, slo_ms: 60, share: 1}
  - {name: b, latency_ms: {alpha: 0.7, beta: 9}, slo_ms: 80, share: 1}
)";

// kBursts, and at 25 s work without a deadline for a minute.
std::string with_backlog() {
  constexpr int kItems = 20'000;
  std::string at = "25000000";
  for (int i = 1; i < kItems; ++i) at += ",25000000";
  std::string text(kBursts);
  text.replace(text.find("duration_s: 40"), 14, "duration_s: 60");
  return text +
         "  - {name: backlog, latency_ms: {alpha: 2, beta: 20}, slo_ms: null, arrival: {process: "
         "recorded, at_us: [" +
         at + "]}}\n";
}

double worst_under(simulate::Scenario given, const policy::Rules& rules) {
  given.groups.rules = rules;
  return simulate::run(given)->worst_bad_rate();
}

class TunedLoads : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Each, TunedLoads, testing::Values(kLongAmongShort, kBursts, kOverload));

TEST_P(TunedLoads, LosesAboutAsLittleAsTheBestRow) {
  const simulate::Scenario given = scenario(GetParam());
  double best = 1;
  for (const RuleRow& row : rule_rows()) best = std::min(best, worst_under(given, row.rules));
  TuningLog log;
  const auto tuned = simulate::run(given, {.listener = tuning(&log)});
  EXPECT_LE(tuned->worst_bad_rate(), 1.1 * best + 0.005) << write_json(write_tuning(log));
  for (size_t i = 1; i < log.moves.size(); ++i) {
    EXPECT_GE(log.moves[i].at - log.moves[i - 1].at, Duration::seconds(10));
  }
}

TEST_P(TunedLoads, EveryRequestEndsOnceAndTheSameEveryTime) {
  const simulate::Scenario given = scenario(GetParam());
  simulate::Trace trace;
  const auto first = simulate::run(given, {.trace = &trace, .listener = tuning()});
  EXPECT_THAT(simulate::check_always(given, trace), IsEmpty());
  EXPECT_EQ(simulate::run(given, {.listener = tuning()})->hash, first->hash);
}

// Whatever rows it moves to, and whenever.
TEST_P(TunedLoads, SwitchesAtEveryMomentLoseNothing) {
  class Switching final : public policy::Scheduler {
   public:
    explicit Switching(std::unique_ptr<policy::Scheduler> scheduler)
        : scheduler_(std::move(scheduler)) {}
    KeyId add_key(policy::KeyInfo info) override { return scheduler_->add_key(std::move(info)); }
    void remove_key(KeyId key) override { scheduler_->remove_key(key); }
    void update_latency(KeyId key, LatencyByType latency, Time now,
                        policy::Decisions& out) override {
      scheduler_->update_latency(key, std::move(latency), now, out);
    }
    void set_delay_bound(policy::DelayBound bound) override { scheduler_->set_delay_bound(bound); }
    WorkerId add_worker(Time now, policy::Decisions& out, uint32_t type, int64_t memory) override {
      return scheduler_->add_worker(now, out, type, memory);
    }
    void nominate(const policy::Task& task, Time now, policy::Decisions& out) override {
      if (random_.uniform() < 0.05) {
        const auto& rows = rule_rows();
        const auto row = static_cast<size_t>(random_.uniform() * static_cast<double>(rows.size()));
        EXPECT_TRUE(scheduler_->set_rules(rows[row].rules, now, out));
      }
      scheduler_->nominate(task, now, out);
    }
    bool withdraw(const policy::Task& task, Time now, policy::Decisions& out) override {
      return scheduler_->withdraw(task, now, out);
    }
    void ended(const policy::BatchEnd& batch, Time now, policy::Decisions& out) override {
      scheduler_->ended(batch, now, out);
    }
    void tick(Time now, policy::Decisions& out) override { scheduler_->tick(now, out); }
    Time next_wake() const override { return scheduler_->next_wake(); }
    uint64_t waiting_items(KeyId key) const override { return scheduler_->waiting_items(key); }

   private:
    const std::unique_ptr<policy::Scheduler> scheduler_;
    Random random_{7};
  };
  const simulate::Scenario given = scenario(GetParam());
  simulate::Trace trace;
  const auto listener = [](std::unique_ptr<policy::Scheduler> scheduler) {
    return std::make_unique<Switching>(std::move(scheduler));
  };
  ASSERT_TRUE(simulate::run(given, {.trace = &trace, .listener = listener}).ok());
  EXPECT_THAT(simulate::check_always(given, trace), IsEmpty());
}

// Work without a deadline that waits for longer than a trial replays: no row lets it take the
// workers of those that have one.
TEST(TunedSchedulerTest, ABacklogWithoutDeadlinesCostsOthersLittle) {
  const simulate::Scenario given = scenario(with_backlog());
  const auto own = simulate::run(given);
  const auto tuned = simulate::run(given, {.listener = tuning()});
  EXPECT_LE(tuned->worst_bad_rate(), own->worst_bad_rate() + 0.02);
}

TEST(TunedSchedulerTest, NothingIsTriedWhereRulesAreGivenOrServicesHaveVariants) {
  simulate::Scenario given = scenario(kOverload);
  EXPECT_TRUE(tuning_for(given));
  given.groups.rules = rule_rows()[1].rules;
  EXPECT_FALSE(tuning_for(given));
  given.groups.rules.reset();
  given.scheduler = "edf";
  EXPECT_FALSE(tuning_for(given));
  TuningLog log;
  const auto variants = scenario(R"(
warmup_s: 0
duration_s: 20
rate_rps: 50
workers: {count: 1}
applications:
  - name: signs
    slo_ms: 100
    penalty: step
    variants: [{name: v, latency_ms: {alpha: 3, beta: 9}, accuracy: 0.9}]
    examples: [{label: 0, correct: [true]}]
)");
  ASSERT_TRUE(simulate::run(variants, {.listener = tuning(&log)}).ok());
  EXPECT_EQ(log.trials, 0u);
}

}  // namespace
}  // namespace fermata::tune
