// Every kind of service at once in the server's engine, at its worst: deadlines of all kinds,
// clients that leave, models that fail and that are reloaded. What its scheduler was told and
// decided is judged by the checkers that judge the simulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/random.h"
#include "engine/difficulty_fixture.h"
#include "engine/engine.h"
#include "engine/fixture.h"
#include "policy/story.h"

namespace fermata::engine {
namespace {

using ::testing::IsEmpty;

TEST(EngineStorm, EveryTaskOfAllKindsEndsOnceAsTheCheckersSay) {
  for (const uint32_t workers : {1u, 5u}) {
    TemporaryFolder folder;
    for (const char* model : {"base-plain", "base-table", "identity-fp32"}) {
      folder.copy_model(model, std::string("models/") + model);
    }
    write_difficulty(folder, {"base-plain", "base-table"}, 2, {0, 0.6, 0.7, 0.9});
    policy::Story story;
    std::atomic<int> answered = 0;
    {
      EngineOptions options = options_for(folder.path() / "models");
      options.workers.types[0].count = workers;
      options.listener = [&story](std::unique_ptr<policy::Scheduler> scheduler) {
        return std::make_unique<policy::Teller>(std::move(scheduler), story);
      };
      using Stage = PipelineOptions::Stage;
      ServiceOptions either{.name = "either"}, both{.name = "both"}, chain{.name = "chain"};
      either.variants = VariantsOptions{.models = {"base-plain", "base-table"},
                                        .accuracy = {{"base-plain", 0.7}, {"base-table", 0.9}}};
      both.ensemble = EnsembleOptions{.models = {"base-plain", "base-table"},
                                      .profile = (folder.path() / "fit").string()};
      chain.pipeline =
          PipelineOptions{{Stage{"first", "base-table"}, Stage{"second", "either", {"first"}}}, {}};
      options.services = {either, both, chain};
      auto made = make_engine(std::move(options));
      ASSERT_TRUE(made.ok()) << made.status();
      Engine& engine = **made;
      constexpr int kThreads = 3, kEach = 400;
      const std::array<std::string, 4> names = {"base-table", "either", "both", "chain"};
      std::latch ended(kThreads * kEach);
      std::vector<std::thread> clients;
      for (int t = 0; t < kThreads; ++t) {
        clients.emplace_back([&, t] {
          Random random(static_cast<uint64_t>(t));
          for (int i = 0; i < kEach; ++i) {
            // 81 is beyond the table, whose model fails.
            const float x = random.below(11) == 0 ? 81.0F : 1.0F;
            InferRequest request{.service = names[random.below(4)],
                                 .inputs = {floats("x", {1, 2}, {x, 1})}};
            request.arrival = engine.now();
            if (random.below(3) != 0) {
              request.timeout = Duration::micros(static_cast<int64_t>(100 * random.below(80)));
            }
            const JobId job = engine.submit(std::move(request), [&](ReplyPart part) {
              answered += part.status.ok() ? 1 : 0;
              ended.count_down();
            });
            if (random.below(7) == 0) engine.cancel(job);
          }
        });
      }
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine.load("base-plain").ok());
      for (std::thread& client : clients) client.join();
      ended.wait();
    }
    EXPECT_GT(answered, 100);
    EXPECT_GT(story.happened.size(), 1000u);
    for (const policy::Check check : policy::kChecks) {
      EXPECT_THAT(check(story), IsEmpty()) << workers << " workers";
    }
  }
}

}  // namespace
}  // namespace fermata::engine
