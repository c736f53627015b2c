// A stream service whose DNNs do not all have room in a worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "engine/execute/executor.h"
#include "engine/fixture.h"
#include "engine/for_frontends.h"

namespace fermata::engine {
namespace {

// Four DNNs of 10 MiB, of which a worker holds two; each twice as slow as the one before.
class Cameras {
 public:
  explicit Cameras(double memory_mb = 25, uint32_t workers = 2, bool pipelines = false) {
    EngineOptions options = options_for(folder_.path());
    options.workers.executor = ExecutorKind::kEmulated;
    options.workers.residency = Residency::kOnDemand;
    options.workers.types[0].count = workers;
    options.workers.types[0].memory_mb = memory_mb;
    ServiceOptions cameras{.name = "cameras", .slo = Duration::seconds(20)};
    cameras.stream.emplace();
    std::vector<ServiceOptions> services;
    for (uint32_t i = 0; i < kSizes; ++i) {
      const std::string name = "dnn-" + std::to_string(i);
      write_emulated(folder_, name, 4, 0.5 * (1 << i), 0.5, 10);
      const std::string service = pipelines ? "camera-" + std::to_string(i) : name;
      cameras.stream->variants.push_back({service, 100 * (i + 1), 0.2 * (i + 1), 1});
      if (!pipelines) continue;
      services.push_back({.name = service});
      services.back().pipeline.emplace();
      services.back().pipeline->stages.push_back({.name = "detect", .service = name});
    }
    services.push_back(std::move(cameras));
    options.services = std::move(services);
    auto made = make_engine(std::move(options));
    FERMATA_CHECK(made.ok());
    engine_ = *std::move(made);
  }
  // A frame of a client that says of its link what it likes; what the reply says. Again where it
  // is more than the client registered.
  ReplyPart frame(uint32_t size, double mbps = 1000) {
    ReplyPart reply = send(size, mbps);
    for (int i = 0; i < kMost && reply.status.code() == absl::StatusCode::kResourceExhausted; ++i) {
      reply = send(size, mbps);
    }
    return reply;
  }
  // Sends what it is told to until it is told this size; how many frames failed.
  uint32_t until_told(uint32_t size) {
    uint32_t failed = 0;
    uint32_t told = 100;
    for (int i = 0; i < kMost && told != size; ++i) {
      const ReplyPart reply = frame(told);
      FERMATA_CHECK(reply.stream != nullptr);
      failed += !reply.status.ok();
      if (reply.stream->advice.input_size > 0) told = reply.stream->advice.input_size;
    }
    return told == size ? failed : kMost;
  }
  StreamStatistics statistics() const { return engine_->snapshot().streams.at(0); }
  Engine& engine() { return *engine_; }

 private:
  ReplyPart send(uint32_t size, double mbps) {
    auto meta = std::make_shared<policy::StreamFrame>();
    meta->client = "one";
    meta->rate_rps = 100;
    meta->bandwidth_mbps = mbps;
    meta->input_size = size;
    InferRequest request{.service = "cameras", .inputs = {floats("x", {1, 2}, {1, 2})}};
    request.frame = std::move(meta);
    return call(*engine_, std::move(request));
  }
  static constexpr uint32_t kSizes = 4;
  static constexpr int kMost = 1'000'000;  // tries
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST(StreamsAhead, ClientsMoveToLargerDnnsWithoutLosingAFrame) {
  Cameras cameras;
  EXPECT_EQ(cameras.until_told(400), 0u);
  const ReplyPart reply = cameras.frame(400);
  EXPECT_EQ(reply.why.variant, "dnn-3");
  EXPECT_GT(cameras.statistics().switches, 0u);
}

TEST(StreamsAhead, APipelineOfOneModelIsLoadedAheadAsTheModelIs) {
  Cameras cameras(25, 2, true);
  EXPECT_EQ(cameras.until_told(400), 0u);
  EXPECT_GT(cameras.statistics().switches, 0u);
}

// Four frames take its model 16.5 ms together, by the 99th percentile and on a worker that is no
// slower than that.
TEST(StreamsAhead, APipelineIsPlannedWithWhatItsModelTakesByBatchSize) {
  Cameras cameras(25, 2, true);
  EXPECT_EQ(cameras.until_told(400), 0u);
  const plan::StreamVariant largest = cameras.engine().last_stream_decision()->problem.variants[3];
  EXPECT_EQ(largest.latency->max_batch(), 4u);
  EXPECT_GE((*largest.latency)(4), Duration::from_millis(16.5));
  EXPECT_EQ(largest.delay_ms, 0);
}

// Of several frontends the longest.
TEST(StreamsAhead, WhatOperatorsTakeAtFrontendsDelaysAnswersInPlans) {
  Cameras cameras;
  auto& told = dynamic_cast<ForFrontends&>(cameras.engine());
  const auto delay_ms = [&](uint32_t variant) {
    const auto decision = cameras.engine().last_stream_decision();
    return decision ? decision->problem.variants[variant].delay_ms : 0;
  };
  for (int i = 0; i < 1'000'000 && (delay_ms(0) != 5 || delay_ms(3) != 4); ++i) {
    const auto ms = [](int count) { return Duration::millis(count); };
    told.operators_take(1, "cameras", {ms(1), ms(2), ms(3), ms(4)});
    told.operators_take(2, "cameras", {ms(5), ms(2), ms(3), ms(0)});
    told.operators_take(3, "cameras", {ms(9)});  // of another configuration
    told.operators_take(3, "others", {ms(9), ms(9), ms(9), ms(9)});
    cameras.frame(100);
  }
  EXPECT_EQ(delay_ms(0), 5);
  EXPECT_EQ(delay_ms(3), 4);
}

// Its DNN was let go meanwhile: the nearest that is there answers, and the client is told.
TEST(StreamsAhead, AFrameWhoseDnnHasGoneRunsOnAnother) {
  Cameras cameras(25, 1);
  EXPECT_EQ(cameras.until_told(400), 0u);
  ReplyPart reply;
  for (int i = 0; i < 10'000 && (i == 0 || reply.why.variant == "dnn-0"); ++i) {
    reply = cameras.frame(100);
    EXPECT_TRUE(reply.status.ok()) << reply.status;
  }
  EXPECT_NE(reply.why.variant, "dnn-0");
}

// With room for one there is nothing to load ahead; frames wait for their DNN.
TEST(StreamsAhead, WithRoomForOneWhatRunsIsLoaded) {
  Cameras cameras(15);
  EXPECT_EQ(cameras.until_told(400), 0u);
  EXPECT_EQ(cameras.frame(400).why.variant, "dnn-3");
  EXPECT_EQ(cameras.statistics().switches, 0u);
}

TEST(StreamsAhead, ADnnThatIsUnloadedLeavesTheOthersServing) {
  Cameras cameras;
  EXPECT_EQ(cameras.until_told(400), 0u);
  ASSERT_TRUE(cameras.engine().unload("dnn-0").ok());
  ASSERT_TRUE(cameras.engine().unload("dnn-2").ok());
  const ReplyPart reply = cameras.frame(400);
  EXPECT_TRUE(reply.status.ok()) << reply.status;
}

// Workers of other hosts, which take any model. Nothing runs.
class Others : public RemoteWorkers {
 public:
  std::unique_ptr<ExecutorFactory> executors(const WorkerType&,
                                             std::unique_ptr<ExecutorFactory> here) override {
    return std::make_unique<Factory>(std::move(here));
  }
  ClusterStatistics statistics() const override { return {}; }

 private:
  struct One : Executor {
    absl::Status load(std::shared_ptr<const Variant>) override { return absl::OkStatus(); }
    void unload(VariantId) override {}
    bool comes_and_goes() const override { return true; }
    void tell_presence(Presences told) override {
      if (told) told({.there = true});
    }
    void run(BatchRun) override { FAIL(); }
  };
  struct Factory : ExecutorFactory {
    explicit Factory(std::unique_ptr<ExecutorFactory> own) : of_here(std::move(own)) {}
    std::shared_ptr<Executor> make() override { return std::make_shared<One>(); }
    absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) override {
      return of_here->open(variant);
    }
    ExecutorFactory& here() override { return *of_here; }
    const std::unique_ptr<ExecutorFactory> of_here;
  };
};

// What hosts measure is not known where streams are planned.
TEST(StreamsOfOtherHosts, WaitForProfiles) {
  TemporaryFolder folder;
  write_emulated(folder, "small", 4, 0.5, 0.5);
  write_emulated(folder, "large", 4, 1, 0.5);
  std::filesystem::remove(folder.path() / "large" / "profile.json");
  EngineOptions options = options_for(folder.path());
  options.workers.executor = ExecutorKind::kEmulated;
  options.workers.types = {WorkerType{.name = "far", .count = 2, .remote = true}};
  options.workers.remote = std::make_shared<Others>();
  ServiceOptions cameras{.name = "cameras", .slo = Duration::seconds(20)};
  cameras.stream.emplace();
  cameras.stream->variants = {{"small", 20, 0.2, 1}, {"large", 30, 0.3, 1}};
  options.services = {std::move(cameras)};
  const auto engine = make_engine(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto waits = (*engine)->unserved();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].name, "cameras");
  EXPECT_THAT(waits[0].reason, testing::HasSubstr("'large' has no profile to plan with"));
  EXPECT_TRUE((*engine)->catalog()->find("large", "").ok());
  write_emulated_profile(folder, "large", 4, 1, 0.5);
  ASSERT_TRUE((*engine)->load("large", {}).ok());
  EXPECT_TRUE((*engine)->unserved().empty());
  EXPECT_TRUE((*engine)->catalog()->find("cameras", "").ok());
}

}  // namespace
}  // namespace fermata::engine
