// Workers of several types: each has profiles of its own, and requests go where they end in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "engine/fixture.h"
#include "engine/trial/loader.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kFastMs = 1, kSlowMs = 100'000;

// An emulated model that takes a moment on workers of the type `fast`, and too long on others.
struct ProfiledFolder : TemporaryFolder {
  ProfiledFolder() { model("one"); }
  void model(const std::string& name, double accuracy = 0.5) const {
    write_emulated(*this, name, 4, 0, kSlowMs);
    const auto folder = path() / name;
    Profile profile = *read_profile(folder / "profile.json");
    profile.answers.accuracy = accuracy;
    FERMATA_CHECK(write_profile(profile, folder / "profile.json").ok());
    for (auto& [items, times] : profile.batches)
      times.p50_ms = times.p90_ms = times.p99_ms = kFastMs;
    profile.linear.latency = {0, kFastMs};
    profile.answers = {};
    FERMATA_CHECK(write_profile(profile, folder / "profile.fast.json").ok());
  }
  EngineOptions options() const {
    EngineOptions options = options_for(path());
    options.workers.executor = ExecutorKind::kEmulated;
    options.workers.types = {{.name = "slow", .count = 2}, {.name = "fast"}};
    return options;
  }
};

InferRequest tolerant_request(const std::string& service) {
  return {.service = service,
          .inputs = {floats("x", {1, 2}, {0, 0})},
          .timeout = Duration::seconds(50)};
}

TEST(HeterogeneousWorkers, ARequestGoesWhereItEndsInTime) {
  const ProfiledFolder folder;
  for (const char* policy : {"fermata", "edf", "sneakpeek"}) {
    EngineOptions options = folder.options();
    options.policy = policy;
    options.groups.window = Duration();
    const auto engine = make_engine(options);
    ASSERT_TRUE(engine.ok()) << message(engine.status());
    for (int i = 0; i < 3; ++i) {
      const ReplyPart reply = call(**engine, tolerant_request("one"));
      EXPECT_EQ(reply.why.outcome, Outcome::kOnTime) << policy << ": " << message(reply.status);
      EXPECT_EQ(reply.why.worker, 2u) << policy;
    }
    const EngineSnapshot snapshot = (*engine)->snapshot();
    EXPECT_THAT(snapshot.worker_types, ElementsAre("slow", "fast"));
    EXPECT_EQ(snapshot.workers[1].type, 0u);
    EXPECT_EQ(snapshot.workers[2].type, 1u);
    EXPECT_EQ(snapshot.workers[2].batches, 3u);
  }
}

TEST(HeterogeneousWorkers, SchedulerThreadsKnowThemToo) {
  const ProfiledFolder folder;
  EngineOptions options = folder.options();
  options.scheduler_threads = 1;
  const auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << message(engine.status());
  EXPECT_EQ(call(**engine, tolerant_request("one")).why.worker, 2u);
}

// And what it would have taken elsewhere is not what the explanation says.
TEST(HeterogeneousWorkers, VariantsAreChosenByTheWorkerThatRunsThem) {
  const ProfiledFolder folder;
  folder.model("two", 0.9);
  for (const char* policy : {"fermata", "sneakpeek", "lo-edf"}) {
    EngineOptions options = folder.options();
    options.policy = policy;
    options.groups.window = Duration();
    options.scheduler_threads = 1;  // one thread chooses variants all the same
    options.services = {{.name = "app",
                         .variants = VariantsOptions{.models = {"one", "two"},
                                                     .penalty = {plan::PenaltyShape::kStep}}}};
    const auto engine = make_engine(options);
    ASSERT_TRUE(engine.ok()) << message(engine.status());
    const ReplyPart reply = call(**engine, tolerant_request("app"));
    EXPECT_EQ(reply.why.variant, "two") << policy << ": " << message(reply.status);
    EXPECT_EQ(reply.why.worker, 2u) << policy;
    const auto alternatives = nlohmann::json::parse(reply.why.alternatives);
    EXPECT_NEAR(alternatives[0].at("run_ms").get<double>(), kFastMs, 1e-6);
    const auto problem = std::get<plan::GroupProblem>((*engine)->last_problems().at(0));
    EXPECT_THAT(problem.worker_types, ElementsAre("slow", "fast"));
    ASSERT_EQ(problem.services[0].variants[0].latency.size(), 2u);
    EXPECT_GT((*problem.services[0].variants[0].latency[0])(1), Duration::seconds(99));
  }
}

TEST(HeterogeneousWorkers, AProfileOfAnotherTypeIsMeasuredAgain) {
  TemporaryFolder folder;
  folder.copy_model("pair", "pair");
  EngineOptions options = options_for(folder.path());
  options.workers.types = {{.name = "narrow"}, {.name = "wide", .threads = 2}, {.name = "other"}};
  std::vector<std::unique_ptr<ExecutorFactory>> executors;
  for (uint32_t type = 0; type < 3; ++type) {
    executors.push_back(*make_executors(options.workers, type));
  }
  Loader loader(options, executors);
  Profile known = loader.load("pair", std::nullopt)->back()->profile_on(0);
  known.machine = "this one";
  known.version = 7;
  known.answers.accuracy = 0.75;
  ASSERT_TRUE(write_profile(known, folder.path() / "pair/profile.json").ok());
  known.version = 8;
  ASSERT_TRUE(write_profile(known, folder.path() / "pair/profile.other.json").ok());
  const auto variant = loader.load("pair", std::nullopt)->back();
  ASSERT_EQ(variant->profile_by_type.size(), 3u);
  EXPECT_EQ(variant->profile.version, 7u);
  EXPECT_EQ(variant->profile_on(0).version, 7u);
  EXPECT_EQ(variant->profile_on(1).threads, 2u);
  EXPECT_TRUE(variant->profile_on(1).measured());
  EXPECT_NE(variant->profile_on(1).version, 7u);
  EXPECT_EQ(variant->profile_on(2).version, 8u);
  for (uint32_t type = 0; type < 3; ++type) {
    EXPECT_EQ(variant->profile_on(type).answers.accuracy, 0.75) << "whatever the worker";
  }
}

// The model needs more than the first type has; one without a limit holds everything.
TEST(HeterogeneousWorkers, EachHasItsOwnMemory) {
  TemporaryFolder folder;
  write_emulated(folder, "large", 4, 0, 1, 200);
  write_emulated(folder, "small", 4, 0, 1, 50);
  for (const double memory_mb : {300.0, WorkerType().memory_mb}) {
    EngineOptions options = options_for(folder.path());
    options.workers.executor = ExecutorKind::kEmulated;
    options.workers.residency = Residency::kOnDemand;
    options.workers.types = {{.name = "little", .memory_mb = 100},
                             {.name = "much", .memory_mb = memory_mb}};
    const auto engine = make_engine(options);
    ASSERT_TRUE(engine.ok()) << message(engine.status());
    EXPECT_TRUE(call(**engine, tolerant_request("small")).status.ok());
    EXPECT_FALSE(call(**engine, tolerant_request("large")).status.ok())
        << "every worker must hold it alone";
  }
}

// One fast worker and two slow ones in two sub-clusters: the second has slow ones only.
TEST(HeterogeneousWorkers, ASubclusterMayLackAType) {
  TemporaryFolder models;
  for (const char* model : {"a", "b"}) {
    write_emulated(models, model, 4, 0, 20, 60);
    Profile profile = *read_profile(models.path() / model / "profile.json");
    for (auto& [items, times] : profile.batches) {
      times.p50_ms = times.p90_ms = times.p99_ms = kFastMs;
    }
    FERMATA_CHECK(write_profile(profile, models.path() / model / "profile.fast.json").ok());
  }
  EngineOptions options = options_for(models.path());
  options.workers.executor = ExecutorKind::kEmulated;
  options.workers.types = {{.name = "fast", .memory_mb = 100},
                           {.name = "slow", .count = 2, .memory_mb = 100}};
  const auto engine = make_engine(options);
  ASSERT_TRUE(engine.ok()) << message(engine.status());
  const EngineSnapshot snapshot = (*engine)->snapshot();
  ASSERT_EQ(snapshot.subclusters.size(), 2u);
  EXPECT_EQ(snapshot.workers[2].type, 1u);
  for (const auto& [model, place] : snapshot.placement.subcluster_of) {
    for (int i = 0; i < 3; ++i) {
      const ReplyPart reply = call(**engine, tolerant_request(model));
      EXPECT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(reply.why.worker == 2, place == 1);
    }
  }
}

TEST(HeterogeneousWorkers, WhatIsWrongIsSaid) {
  const ProfiledFolder folder;
  const auto refusal = [&](auto change) {
    EngineOptions options = folder.options();
    change(options.workers);
    return std::string(message(make_engine(options).status()));
  };
  EXPECT_THAT(refusal([](WorkerOptions& w) { w.types[1].name = "slow"; }),
              HasSubstr("names 'slow' twice"));
  EXPECT_THAT(refusal([](WorkerOptions& w) { w.types.clear(); }), HasSubstr("0 types"));
  EXPECT_THAT(refusal([](WorkerOptions& w) { w.types[1].count = 0; }), HasSubstr("count is 0"));
  folder.write("one/profile.fast.json", "{}");
  EXPECT_THAT(message(call(**make_engine(folder.options()), tolerant_request("one")).status),
              HasSubstr("one"));
}

}  // namespace
}  // namespace fermata::engine
