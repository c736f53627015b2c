#include "tune/served_tuner.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/random.h"
#include "engine/services/adapter.h"
#include "tune/fixture.h"

namespace fermata::tune {
namespace {

// A server whose clock the test moves.
class RecordedEngine final : public engine::Engine {
 public:
  RecordedEngine(const RecordedServer& server, Time now) : now_(now), server_(server) {}
  Time now() const override { return now_; }
  JobId submit(engine::InferRequest, engine::Reply) override { return JobId(1); }
  void cancel(JobId) override {}
  std::shared_ptr<const engine::Catalog> catalog() const override {
    return std::make_shared<const engine::Catalog>(server_.catalog);
  }
  std::vector<engine::ModelStatus> index() const override { return {}; }
  absl::Status load(std::string_view, std::optional<std::string>) override { return {}; }
  absl::Status unload(std::string_view) override { return {}; }
  void end_epoch() override {}
  std::vector<engine::PlacementDecision> placement_decisions() const override { return {}; }
  std::vector<policy::Problem> last_problems() const override { return {}; }
  engine::EngineSnapshot snapshot() const override {
    engine::EngineSnapshot snapshot;
    snapshot.workers = server_.workers;
    return snapshot;
  }
  void set_rules(const policy::Rules& rules) override { rules_ = rules; }

  Time now_;
  std::optional<policy::Rules> rules_;

 private:
  const RecordedServer& server_;
};

class ServedTunerTest : public testing::Test {
 protected:
  static constexpr double kSeconds = 60;
  ServedTunerTest()
      : recorder(RecorderOptions{.keep = Duration::seconds(3600), .memory_mb = 64}),
        begin(monotonic_now() - Duration::from_seconds(kSeconds + 1)),
        engine(server, begin) {
    server.options.policy = "fermata";
    recorder.model(server.m, "m");
    service = recorder.service("m");
  }
  // A request each 10 ms, with a look each second.
  void serve(ServedTuner& tuner) {
    for (int s = 0; s < static_cast<int>(kSeconds); ++s) {
      for (int i = 0; i < 100; ++i) {
        const double at = (begin - Time()).millis() + s * 1e3 + i * 10;
        observe(recorder, service, server.m, {++requests, at, at, 8, 50});
      }
      recorder.collect();
      engine.now_ = begin + Duration::seconds(s + 1);
      tuner.look();
    }
  }

  RecordedServer server;
  Recorder recorder;
  Time begin;
  RecordedEngine engine;
  uint32_t service = 0;
  uint64_t requests = 0;
  Duration worked;
};

TEST_F(ServedTunerTest, TriesEveryRowOnWhatCame) {
  ServedTuner tuner(engine, server.options, &recorder, [] { return Duration(); });
  serve(tuner);
  const TuningStatus status = tuner.status();
  EXPECT_EQ(status.fixed, "");
  EXPECT_EQ(status.rules, "fermata");
  EXPECT_GE(status.trials, 5u);
  ASSERT_EQ(status.rows.size(), rule_rows().size());
  for (const TuningStatus::Row& row : status.rows) {
    ASSERT_TRUE(row.loss) << row.name;
    EXPECT_LT(*row.loss, 0.02) << row.name;
  }
  EXPECT_FALSE(engine.rules_);  // nothing is better by much
  EXPECT_EQ(write_tuning(status)["tried"].size(), rule_rows().size());
}

// A light load first, under which all rows fare alike, and then more than the worker bears: what
// starts at once then loses less than what waits for the largest batches.
TEST_F(ServedTunerTest, TrafficItselfMovesIt) {
  server.options.workers.types.front().count = 1;
  server.workers.resize(1);
  server.add_model("b", VariantId(9), 0.7, 9, 80);
  server.add_model("a", VariantId(8), 0.5, 12, 60);
  struct Source {
    uint32_t service;
    VariantId model;
    double run_ms, slo_ms, next_ms;
  };
  std::vector<Source> sources = {{recorder.service("a"), VariantId(8), 12.5, 60, 0},
                                 {recorder.service("b"), VariantId(9), 9.7, 80, 0}};
  recorder.model(VariantId(8), "a");
  recorder.model(VariantId(9), "b");
  ServedTuner tuner(engine, server.options, &recorder, [] { return Duration(); });
  Random random(5);
  const auto serve = [&](int from_s, int to_s, double rps) {
    for (int s = from_s; s < to_s; ++s) {
      for (Source& source : sources) {
        for (; source.next_ms < 1e3 * (s + 1); source.next_ms += random.exponential(1e3 / rps)) {
          const double at = (begin - Time()).millis() + source.next_ms;
          observe(recorder, source.service, source.model,
                  {++requests, at, at, source.run_ms, source.slo_ms});
        }
      }
      recorder.collect();
      engine.now_ = begin + Duration::seconds(s + 1);
      tuner.look();
    }
  };
  serve(0, 20, 10);
  EXPECT_GE(tuner.status().trials, 1u);
  EXPECT_FALSE(engine.rules_) << "a light load says nothing against the rules";
  serve(20, 40, 450);
  const TuningStatus status = tuner.status();
  ASSERT_GE(status.moves, 1u) << write_tuning(status);
  const size_t now = *find_rule_row(status.rules);
  ASSERT_TRUE(engine.rules_);
  EXPECT_EQ(*engine.rules_, rule_rows()[now].rules);
  EXPECT_LT(*status.rows[now].loss, 0.9 * *status.rows.front().loss) << write_tuning(status);
}

// A trial that takes a tenth of a second is not followed by another for five.
TEST_F(ServedTunerTest, TrialsTakeNoMoreOfACoreThanTheyMay) {
  Duration total;
  int calls = 0;
  ServedTuner tuner(engine, server.options, &recorder, [&] {
    if (++calls % 2 == 0) total += Duration::millis(400);
    return total;
  });
  serve(tuner);
  EXPECT_GE(tuner.status().trials, 2u);
  EXPECT_LE(total.seconds(), (kSeconds + 20) * ServedTuner::kMostWork);
}

TEST_F(ServedTunerTest, SaysWhyRulesStay) {
  const auto why = [this](Recorder* recorder, bool on) {
    return ServedTuner(
               engine, server.options, recorder, [] { return Duration(); }, on)
        .status()
        .fixed;
  };
  EXPECT_EQ(why(&recorder, true), "");
  EXPECT_EQ(why(&recorder, false), "scheduler_tuning is off");
  EXPECT_EQ(why(nullptr, true), "nothing is recorded");
  server.options.policy = "edf";
  EXPECT_EQ(why(&recorder, true), "the scheduler is edf");
}

}  // namespace
}  // namespace fermata::tune
