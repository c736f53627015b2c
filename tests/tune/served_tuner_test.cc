#include "tune/served_tuner.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
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
