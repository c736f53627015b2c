// Workers that come and go while the server runs.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <thread>

#include "engine/engine.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

uint32_t serving(const Engine& engine) {
  uint32_t count = 0;
  for (const WorkerStatistics& worker : engine.snapshot().workers) count += worker.serving;
  return count;
}

// Requests of a plain model, of variants and of a pipeline, while workers come and go, and a model
// is reloaded: each ends once, and none for the workers' sake.
TEST(ComingAndGoing, NoRequestIsLost) {
  TemporaryFolder folder;
  for (const char* model : {"base-plain", "base-table"}) folder.copy_model(model, model);
  EngineOptions options = options_for(folder.path());
  options.workers.types[0].count = 4;
  options.workers.least = 1;
  ServiceOptions variants{.name = "either"};
  variants.variants = VariantsOptions{.models = {"base-plain", "base-table"}};
  ServiceOptions chain{.name = "chain"};
  chain.pipeline = PipelineOptions{{{"a", "base-plain"}, {"b", "either", {"a"}}}};
  options.services = {variants, chain};
  auto engine = make_engine(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(serving(**engine), 1u);
  constexpr int kThreads = 2, kEach = 600;
  const std::array<std::string, 3> names = {"base-plain", "either", "chain"};
  std::array<std::atomic<uint64_t>, kOutcomes> seen{};
  std::latch ended(kThreads * kEach);
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        InferRequest request{.service = names[i % 3], .inputs = {floats("x", {1, 2}, {1, 2})}};
        request.arrival = (*engine)->now();
        (*engine)->submit(std::move(request), [&](ReplyPart part) {
          ++seen[static_cast<size_t>(part.why.outcome)];
          ended.count_down();
        });
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    for (const uint32_t count : {4u, 2u, 3u, 1u}) {
      EXPECT_EQ((*engine)->set_workers(count), count);
      EXPECT_EQ(serving(**engine), count);
    }
    if (i == 5) {
      EXPECT_TRUE((*engine)->load("base-plain").ok());
    }
  }
  for (std::thread& client : clients) client.join();
  ended.wait();
  EXPECT_EQ(seen[static_cast<size_t>(Outcome::kOnTime)], uint64_t{kThreads} * kEach);
}

TEST(ComingAndGoing, TheirNumberStaysWithinItsBounds) {
  TemporaryFolder folder;
  folder.copy_model("base-plain", "base-plain");
  EngineOptions options = options_for(folder.path());
  options.workers.types[0].count = 3;
  options.workers.least = 2;
  options.policy = "sneakpeek";
  EXPECT_FALSE(make_engine(options).ok());
  options.policy = "fermata";
  auto engine = make_engine(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->set_workers(100), 3u);
  EXPECT_EQ((*engine)->set_workers(0), 1u);
  EXPECT_TRUE(call(**engine, {.service = "base-plain", .inputs = {floats("x", {1, 2}, {1, 2})}})
                  .status.ok());
}

}  // namespace
}  // namespace fermata::engine
