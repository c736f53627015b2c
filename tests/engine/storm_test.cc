// Every kind of service at once in the server's engine, at its worst: deadlines of all kinds,
// clients that leave, models that fail and that are reloaded. What its scheduler was told and
// decided is judged by the checkers that judge the simulator, and a scheduler in virtual time
// decides the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/random.h"
#include "engine/difficulty_fixture.h"
#include "engine/engine.h"
#include "engine/fixture.h"
#include "policy/retold.h"
#include "policy/story.h"

namespace fermata::engine {
namespace {

using ::testing::IsEmpty;

TEST(EngineStorm, EveryTaskOfAllKindsEndsOnceAsTheCheckersSay) {
  for (const uint32_t workers : {1u, 5u}) {
    TemporaryFolder folder;
    for (const char* model : {"base-plain", "base-table", "identity-fp32", "whole"}) {
      folder.copy_model(model, std::string("models/") + model);
    }
    write_difficulty(folder, {"base-plain", "base-table"}, 2, {0, 0.6, 0.7, 0.9});
    policy::Story story;
    std::vector<policy::Told> told;
    std::atomic<int> answered = 0, wide_answered = 0, frames_answered = 0;
    {
      EngineOptions options = options_for(folder.path() / "models");
      options.workers.types[0].count = workers;
      options.listener = [&](std::unique_ptr<policy::Scheduler> scheduler) {
        return std::make_unique<policy::Teller>(
            std::make_unique<policy::Retold>(std::move(scheduler), told), story);
      };
      using Stage = PipelineOptions::Stage;
      ServiceOptions either{.name = "either"}, both{.name = "both"}, chain{.name = "chain"};
      either.variants = VariantsOptions{.models = {"base-plain", "base-table"},
                                        .accuracy = {{"base-plain", 0.7}, {"base-table", 0.9}}};
      both.ensemble = EnsembleOptions{.models = {"base-plain", "base-table"},
                                      .profile = (folder.path() / "fit").string()};
      chain.pipeline =
          PipelineOptions{{Stage{"first", "base-table"}, Stage{"second", "either", {"first"}}}, {}};
      // Three items of one, of which a batch takes two.
      ServiceOptions pairs{.name = "pairs", .model = "identity-fp32", .max_batch = 2};
      ServiceOptions wide{.name = "wide"}, camera{.name = "camera", .slo = Duration::seconds(1)};
      Stage make{"make", "whole"};
      make.fan_out = "y";
      wide.pipeline = PipelineOptions{{make, Stage{"each", "pairs", {"make"}}}, {}};
      camera.stream.emplace();
      camera.stream->variants = {{"base-plain", 10, 0.5, 1}, {"base-table", 20, 0.9, 1}};
      options.services = {either, both, chain, pairs, wide, camera};
      auto made = make_engine(std::move(options));
      ASSERT_TRUE(made.ok()) << made.status();
      Engine& engine = **made;
      constexpr int kThreads = 3, kEach = 400;
      const std::array<std::string, 6> names = {"base-table", "either", "both",
                                                "chain",      "wide",   "camera"};
      std::latch ended(kThreads * kEach);
      std::vector<std::thread> clients;
      for (int t = 0; t < kThreads; ++t) {
        clients.emplace_back([&, t] {
          Random random(static_cast<uint64_t>(t));
          for (int i = 0; i < kEach; ++i) {
            // 81 is beyond the table, whose model fails.
            const float x = random.below(11) == 0 ? 81.0F : 1.0F;
            InferRequest request{.service = names[random.below(names.size())],
                                 .inputs = {floats("x", {1, 2}, {x, 1})}};
            if (request.service == "wide") {
              request.inputs = {floats("x", {3, 5}, std::vector<float>(15))};
            } else if (request.service == "camera") {
              request.frame = std::make_shared<policy::StreamFrame>();
              request.frame->client = "client-" + std::to_string(t);
              request.frame->rate_rps = 100;
              request.frame->bandwidth_mbps = 1000;
              request.frame->input_size = random.below(2) == 0 ? 10 : 20;
            }
            request.arrival = engine.now();
            if (random.below(3) != 0) {
              request.timeout = Duration::micros(static_cast<int64_t>(100 * random.below(80)));
            }
            const JobId job = engine.submit(std::move(request), [&](ReplyPart part) {
              if (part.status.ok()) ++answered;
              if (part.status.ok() && part.model == "wide") ++wide_answered;
              if (part.status.ok() && part.stream != nullptr) ++frames_answered;
              ended.count_down();
            });
            if (!job.is_none() && random.below(7) == 0) engine.cancel(job);
          }
        });
      }
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine.load("base-plain").ok());
      for (std::thread& client : clients) client.join();
      ended.wait();
    }
    EXPECT_GT(answered, 100);
    EXPECT_GT(wide_answered, 0);
    EXPECT_GT(frames_answered, 0);
    EXPECT_GT(story.happened.size(), 1000u);
    for (const policy::Check check : policy::kChecks) {
      EXPECT_THAT(check(story), IsEmpty()) << workers << " workers";
    }
    auto simulated = policy::make_scheduler(EngineOptions().policy);
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    EXPECT_EQ(policy::first_difference(told, **simulated), "") << workers << " workers";
  }
}

}  // namespace
}  // namespace fermata::engine
