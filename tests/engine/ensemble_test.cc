// Services that several base models answer together, on emulated workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <thread>

#include "engine/difficulty_fixture.h"
#include "engine/engine.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::HasSubstr;

// Believed to run for `believed_ms`, and really running for `real_ms`.
void write_misjudged(const TemporaryFolder& folder, const std::string& model, double believed_ms,
                     double real_ms) {
  write_emulated(folder, "models/" + model, 4, 0, believed_ms);
  const auto file = folder.path() / "models" / model / "profile.json";
  Profile profile = *read_profile(file);
  profile.model = model;
  for (auto& [items, times] : profile.batches) times.p50_ms = real_ms;
  FERMATA_CHECK(write_profile(profile, file).ok());
}

ServiceOptions ensemble(const TemporaryFolder& folder, std::vector<std::string> models) {
  std::vector<double> utilities(size_t{1} << models.size());
  for (size_t s = 1; s < utilities.size(); ++s) utilities[s] = 0.5 + 0.5 * std::popcount(s) / 8.0;
  write_difficulty(folder, models, 3, std::move(utilities));
  EnsembleOptions options{.models = std::move(models), .profile = (folder.path() / "fit").string()};
  return {.name = "e", .ensemble = std::move(options)};
}

std::unique_ptr<Engine> engine_of(const TemporaryFolder& folder, const std::string& policy,
                                  uint32_t workers, std::vector<ServiceOptions> services) {
  EngineOptions options = options_for(folder.path() / "models");
  options.policy = policy;
  options.workers.types[0].count = workers;
  options.workers.executor = ExecutorKind::kEmulated;
  options.services = std::move(services);
  auto engine = make_engine(std::move(options));
  FERMATA_CHECK(engine.ok());
  return *std::move(engine);
}

InferRequest request(const std::string& service, int64_t items = 1) {
  return {.service = service,
          .inputs = {floats("x", {items, 2}, std::vector<float>(static_cast<size_t>(items) * 2))}};
}

uint64_t executions(const Engine& engine, const std::string& service) {
  for (const ServiceStatistics& row : engine.snapshot().services) {
    if (row.service == service) return row.execution_count;
  }
  return 0;
}

class EnsembleLoad : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Schedulers, EnsembleLoad,
                         ::testing::Values("fermata", "eager", "schemble", "greedy-edf",
                                           "greedy-fifo", "greedy-sjf", "original", "static",
                                           "selected"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(EnsembleLoad, EveryRequestEndsOnceAndIsCounted) {
  TemporaryFolder folder;
  write_emulated(folder, "models/quick", 8, 0.02, 0.1);
  write_emulated(folder, "models/slow", 4, 0.1, 0.5);
  write_emulated(folder, "models/gate", 8, 0, 0.05);
  ServiceOptions service = ensemble(folder, {"quick", "slow"});
  service.queue_limit = 200;
  service.ensemble->predictor = "gate";  // says nothing that a score could be
  service.ensemble->predictor_output = "y";
  service.ensemble->score = DifficultyScore::kDiscrepancy;
  service.ensemble->selector = Selector::kGating;
  service.ensemble->gating = "gate";
  const auto engine = engine_of(folder, GetParam(), 2, {service});
  constexpr int kThreads = 3, kEach = 300;
  const std::array<std::string, 2> names = {"e", "quick"};
  std::array<std::array<std::atomic<int>, kOutcomes>, 2> seen{};
  std::latch ended(kThreads * kEach);
  std::vector<std::thread> clients;
  for (int t = 0; t < kThreads; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const size_t model = i % 4 == 0 ? 1 : 0;
        InferRequest query = request(names[model], 1 + i % 3);
        query.arrival = engine->now();
        if (i % 5 != 0) query.timeout = Duration::micros(200 * (i % 50));
        const JobId job = engine->submit(std::move(query), [&, model](ReplyPart part) {
          ++seen[model][static_cast<size_t>(part.why.outcome)];
          ended.count_down();
        });
        if (i % 7 == t) engine->cancel(job);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  ended.wait();
  for (const ServiceStatistics& row : engine->snapshot().services) {
    const auto model = std::find(names.begin(), names.end(), row.service) - names.begin();
    if (model == 2) continue;
    for (size_t i = 0; i < kOutcomes; ++i) {
      EXPECT_EQ(row.outcomes[i], static_cast<uint64_t>(seen[static_cast<size_t>(model)][i].load()))
          << row.service << " " << name(static_cast<Outcome>(i));
    }
    EXPECT_EQ(row.pending, 0u) << row.service;
  }
  EXPECT_EQ(seen[0][static_cast<size_t>(Outcome::kFailed)], 0);
  EXPECT_GT(seen[0][static_cast<size_t>(Outcome::kOnTime)], 0);
}

TEST(Ensembles, ACancelledQueryIsAnsweredOnceWhileItsModelsRun) {
  TemporaryFolder folder;
  write_emulated(folder, "models/quick", 1, 0, 1);
  write_emulated(folder, "models/slow", 1, 0, 3000);
  const auto engine = engine_of(folder, "fermata", 2, {ensemble(folder, {"quick", "slow"})});
  std::promise<ReplyPart> reply;
  InferRequest query = request("e");
  query.arrival = engine->now();
  const JobId job = engine->submit(std::move(query),
                                   [&reply](ReplyPart part) { reply.set_value(std::move(part)); });
  while (executions(*engine, "e") == 0) std::this_thread::yield();  // the quick one has ended
  engine->cancel(job);
  EXPECT_EQ(reply.get_future().get().status.code(), absl::StatusCode::kCancelled);
  const ReplyPart next = call(*engine, request("e"));
  EXPECT_TRUE(next.status.ok()) << next.status;
  EXPECT_EQ(next.why.variant, "quick+slow");
}

class Misjudged : public ::testing::Test {
 protected:
  Misjudged() {
    write_misjudged(folder_, "quick", 1, 1);
    write_misjudged(folder_, "slow", 2, 5000);
  }
  ReplyPart ask(Engine& engine) {
    InferRequest query = request("e");
    query.timeout = Duration::seconds(3);
    return call(engine, std::move(query));
  }
  TemporaryFolder folder_;
};

TEST_F(Misjudged, AQueryIsAnsweredAtItsDeadlineWithWhatThereIs) {
  for (const char* policy : {"fermata", "schemble"}) {
    const auto engine = engine_of(folder_, policy, 2, {ensemble(folder_, {"quick", "slow"})});
    const ReplyPart reply = ask(*engine);
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.why.variant, "quick") << policy;
    EXPECT_THAT(reply.why.reason, HasSubstr("'quick+slow' was planned")) << policy;
    EXPECT_EQ(reply.outputs.at(0).shape, Shape({1, 3}));
  }
}

TEST_F(Misjudged, AModelMayGoWhileItRunsForAQueryThatHasEnded) {
  const auto engine = engine_of(folder_, "fermata", 2, {ensemble(folder_, {"quick", "slow"})});
  ASSERT_EQ(ask(*engine).why.variant, "quick");
  ASSERT_TRUE(engine->unload("slow").ok());
  EXPECT_EQ(ask(*engine).status.code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(engine->load("slow").ok());
  EXPECT_TRUE(call(*engine, request("e")).status.ok());
}

TEST_F(Misjudged, ServingAllWaitsForTheWholePlanAsPublished) {
  ServiceOptions service = ensemble(folder_, {"quick", "slow"});
  service.ensemble->serve_all = true;
  const auto engine = engine_of(folder_, "schemble", 2, {service});
  const ReplyPart reply = ask(*engine);
  EXPECT_EQ(reply.why.variant, "quick+slow");
  EXPECT_EQ(reply.why.outcome, Outcome::kLate);
}

TEST(Ensembles, WhatRunsAtTheEndIsAnswered) {
  TemporaryFolder folder;
  write_emulated(folder, "models/quick", 1, 0, 800);
  write_emulated(folder, "models/slow", 1, 0, 1200);
  auto engine = engine_of(folder, "fermata", 2, {ensemble(folder, {"quick", "slow"})});
  constexpr size_t kQueries = 6;
  std::array<absl::Status, kQueries> ends;
  std::latch ended(kQueries);
  for (size_t i = 0; i < kQueries; ++i) {
    InferRequest query = request("e");
    query.arrival = engine->now();
    engine->submit(std::move(query), [&, i](ReplyPart part) {
      ends[i] = part.status;
      ended.count_down();
    });
  }
  engine.reset();
  EXPECT_TRUE(ended.try_wait());
  EXPECT_TRUE(ends[0].ok()) << ends[0];
  EXPECT_EQ(ends[kQueries - 1].code(), absl::StatusCode::kUnavailable);
}

// Of `one` and `two`, on two workers of 100 MiB; no epoch ends by itself.
std::unique_ptr<Engine> with_short_memory(const TemporaryFolder& folder) {
  EngineOptions options = options_for(folder.path() / "models");
  options.workers = {.executor = ExecutorKind::kEmulated,
                     .types = {{.count = 2, .memory_mb = 100}}};
  options.placement.epoch = Duration::seconds(86'400);
  options.services = {ensemble(folder, {"one", "two"})};
  auto engine = make_engine(std::move(options));
  FERMATA_CHECK(engine.ok());
  return *std::move(engine);
}

// By themselves the large ones would be spread over the workers.
TEST(Ensembles, BaseModelsLiveTogetherWhereMemoryIsShort) {
  TemporaryFolder folder;
  for (const char* model : {"one", "two"}) {
    write_emulated(folder, std::string("models/") + model, 4, 0, 1, 45);
  }
  for (const char* model : {"small", "tiny"}) {
    write_emulated(folder, std::string("models/") + model, 4, 0, 1, 10);
  }
  const std::unique_ptr<Engine> made = with_short_memory(folder);
  Engine& engine = *made;
  const auto places = [&] { return engine.snapshot().placement.subcluster_of; };
  const auto expect_served = [&] {
    EXPECT_EQ(places().at("one"), places().at("two"));
    EXPECT_NE(places().at("one"), places().at("tiny"));
    const ReplyPart reply = call(engine, request("e"));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
  };
  expect_served();
  EXPECT_EQ(engine.placement_decisions()[0].problem.models[0].name, "one+two");
  engine.end_epoch();
  expect_served();
  ASSERT_TRUE(engine.unload("two").ok());
  EXPECT_EQ(call(engine, request("e")).status.code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(engine.load("two").ok());
  expect_served();
}

// What of an ensemble has no room keeps waiting for it while others come.
TEST(Ensembles, AMemberWithoutRoomIsInNobodysWay) {
  TemporaryFolder folder;
  const std::vector<std::pair<std::string, double>> models = {
      {"one", 45}, {"two", 45}, {"big", 95}, {"mid", 50}, {"small", 4}};
  for (const auto& [model, memory_mb] : models) {
    write_emulated(folder, "models/" + model, 4, 0, 1, memory_mb);
  }
  const std::unique_ptr<Engine> made = with_short_memory(folder);
  Engine& engine = *made;
  for (const char* model : {"small", "two"}) ASSERT_TRUE(engine.unload(model).ok());
  ASSERT_TRUE(engine.load("big").ok());
  EXPECT_FALSE(engine.load("two").ok());
  EXPECT_TRUE(engine.load("small").ok());
  engine.end_epoch();
  EXPECT_EQ(call(engine, request("e")).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(call(engine, request("one")).status.ok());
}

TEST(Ensembles, ABaseModelThatCannotBeLoadedIsNamed) {
  TemporaryFolder folder;
  write_emulated(folder, "models/quick", 4, 0, 1);
  write_emulated(folder, "models/slow", 4, 0, 2);
  std::filesystem::remove(folder.path() / "models/slow/profile.json");  // emulation needs it
  const ServiceOptions service = ensemble(folder, {"quick", "slow"});
  EngineOptions options = options_for(folder.path() / "models");
  options.workers.executor = ExecutorKind::kEmulated;
  options.services = {service};
  const auto engine = make_engine(std::move(options));
  EXPECT_THAT(std::string(engine.status().message()),
              HasSubstr("service 'e': its model 'slow' is not loaded"));
}

}  // namespace
}  // namespace fermata::engine
