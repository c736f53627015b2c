// Where models live when a worker cannot hold all of them, on emulated workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "engine/engine.h"
#include "engine/fixture.h"

namespace fermata::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Result = PlacementChange::Result;

struct Sized {
  std::string name;
  double memory_mb;
};

class ShortMemory : public ::testing::Test {
 protected:
  void write(const std::vector<Sized>& models) {
    for (const auto& [name, memory_mb] : models)
      write_emulated(folder_, name, 8, 0.1, 1, memory_mb);
  }
  // No epoch ends by itself within a test.
  EngineOptions options(uint32_t workers, double memory_mb) const {
    EngineOptions options = options_for(folder_.path());
    options.workers = {.executor = ExecutorKind::kEmulated,
                       .types = {{.count = workers, .memory_mb = memory_mb}}};
    options.placement.epoch = Duration::seconds(86'400);
    return options;
  }
  void start(const EngineOptions& options) {
    auto made = make_engine(options);
    ASSERT_TRUE(made.ok()) << made.status();
    engine_ = *std::move(made);
  }

  static InferRequest request(const std::string& model) {
    return {.service = model, .inputs = {floats("x", {1, 2}, {1, 2})}};
  }
  ReplyPart ask(const std::string& model) { return call(*engine_, request(model)); }
  void ask(const std::string& model, int times) {
    for (int i = 0; i < times; ++i) ASSERT_TRUE(ask(model).status.ok()) << model;
  }

  std::map<std::string, uint32_t> places() { return engine_->snapshot().placement.subcluster_of; }
  PlacementSnapshot placement() { return engine_->snapshot().placement; }
  ModelStatus status_of(const std::string& model) {
    for (const ModelStatus& row : engine_->index()) {
      if (row.name == model) return row;
    }
    return {};
  }
  void expect_within_memory() {
    for (const SubclusterStatistics& each : engine_->snapshot().subclusters) {
      EXPECT_LE(each.used_mb, each.memory_mb);
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ShortMemory, NothingIsDividedWhereEveryWorkerHoldsEveryModel) {
  write({{"a", 30}, {"b", 30}, {"c", 40}});
  start(options(4, 100));
  EXPECT_THAT(engine_->snapshot().subclusters, SizeIs(1));
  for (const char* model : {"a", "b", "c"}) EXPECT_EQ(places().at(model), 0u);
  engine_->end_epoch();
  EXPECT_EQ(placement().moves, 0u);
}

TEST_F(ShortMemory, UnlimitedMemoryIsNeverPlanned) {
  write({{"a", 1e6}, {"b", 1e6}});
  EngineOptions unlimited = options(2, 1);
  unlimited.workers.types[0].memory_mb = WorkerType().memory_mb;
  start(unlimited);
  engine_->end_epoch();
  EXPECT_THAT(engine_->placement_decisions(), IsEmpty());
  EXPECT_THAT(engine_->snapshot().subclusters, SizeIs(1));
  EXPECT_TRUE(ask("a").status.ok());
}

TEST_F(ShortMemory, ModelsThatDoNotAllFitAreSpread) {
  write({{"a", 40}, {"b", 40}, {"c", 40}, {"d", 40}});
  start(options(5, 100));
  const auto subclusters = engine_->snapshot().subclusters;
  ASSERT_THAT(subclusters, SizeIs(2));
  EXPECT_EQ(subclusters[0].workers, 3u);
  EXPECT_EQ(subclusters[1].workers, 2u);
  EXPECT_EQ(subclusters[0].used_mb, 80);
  EXPECT_EQ(subclusters[1].used_mb, 80);
  for (const auto& [model, place] : places()) {
    const ReplyPart reply = ask(model);
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.why.worker >= 3, place == 1) << "workers are numbered through";
  }
  const auto workers = engine_->snapshot().workers;
  ASSERT_THAT(workers, SizeIs(5));
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(workers[i].worker, i);
}

TEST_F(ShortMemory, EachSubclusterMayHaveThreadsForItsScheduler) {
  write({{"a", 60}, {"b", 60}});
  EngineOptions threaded = options(2, 100);
  threaded.scheduler_threads = 1;
  start(threaded);
  ask("a", 5);
  ask("b", 5);
}

TEST_F(ShortMemory, WhatHasNoRoomIsUnavailableAndTheOthersServe) {
  write({{"giant", 200}, {"large", 60}, {"small", 50}});
  start(options(1, 100));
  EXPECT_EQ(status_of("small").state, ModelState::kReady);
  EXPECT_EQ(status_of("giant").state, ModelState::kUnavailable);
  EXPECT_THAT(status_of("giant").reason, HasSubstr("it needs 200 MiB, a worker has 100 MiB"));
  EXPECT_THAT(status_of("large").reason, HasSubstr("no room: it needs 60 MiB"));
  EXPECT_TRUE(ask("small").status.ok());
  EXPECT_EQ(ask("large").status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine_->load("large").code(), absl::StatusCode::kUnavailable);
  // What leaves makes room by the next epoch.
  ASSERT_TRUE(engine_->unload("small").ok());
  engine_->end_epoch();
  EXPECT_EQ(status_of("large").state, ModelState::kReady);
  EXPECT_TRUE(ask("large").status.ok());
  EXPECT_EQ(ask("small").status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status_of("small").reason, "unloaded");
  EXPECT_EQ(engine_->unload("giant"), absl::OkStatus());
  EXPECT_EQ(engine_->unload("giant").code(), absl::StatusCode::kNotFound);
}

TEST_F(ShortMemory, AnEpochMovesWithinTheBoundWhatRatesAskFor) {
  write({{"a", 10}, {"b", 10}, {"c", 10}, {"d", 10}});
  EngineOptions two = options(2, 100);
  two.placement.subclusters = 2;
  two.placement.weight = 0.01;  // rates decide, memory where there are none
  two.placement.max_change_cost = 2;
  start(two);
  const auto before = places();
  std::vector<std::string> busy;  // all on one sub-cluster, all that is there
  for (const auto& [model, place] : before) {
    if (place == before.at("a")) busy.push_back(model);
  }
  ASSERT_THAT(busy, SizeIs(2));
  for (const std::string& model : busy) ask(model, 20);
  engine_->end_epoch();
  EXPECT_NE(places().at(busy[0]), places().at(busy[1]));
  EXPECT_EQ(placement().moves, 1u);
  EXPECT_EQ(placement().epochs, 1u);
  EXPECT_EQ(placement().rate_imbalance, 0);
  const PlacementDecision last = engine_->placement_decisions().front();
  EXPECT_EQ(last.cause, "epoch");
  EXPECT_LE(last.answer.change_cost, 2);
  ASSERT_THAT(last.changes, SizeIs(1));
  EXPECT_EQ(last.changes[0].result, Result::kDone);
  // As before, so nothing is gained by moving.
  for (const std::string& model : busy) ask(model, 20);
  engine_->end_epoch();
  EXPECT_EQ(placement().moves, 1u);
  EXPECT_TRUE(engine_->placement_decisions().front().stayed);
  for (const auto& [model, place] : before) EXPECT_TRUE(ask(model).status.ok());
}

TEST_F(ShortMemory, EveryDecisionIsReplayed) {
  write({{"a", 60}, {"b", 50}, {"c", 45}, {"d", 60}});
  start(options(2, 100));
  ask("c", 7);
  engine_->end_epoch();
  const auto decisions = engine_->placement_decisions();
  ASSERT_GE(decisions.size(), 2u);
  EXPECT_EQ(decisions.back().cause, "start");
  EXPECT_EQ(decisions.back().number, 1u);
  for (const PlacementDecision& decision : decisions) {
    const plan::Placement again = plan::place(decision.problem);
    EXPECT_EQ(again.feasible, decision.answer.feasible);
    EXPECT_EQ(again.assignment, decision.answer.assignment);
    EXPECT_EQ(again.objective, decision.answer.objective);
  }
}

TEST_F(ShortMemory, WhatLeavesMakesRoomForWhatComes) {
  write({{"a", 50}, {"b", 30}, {"c", 40}});  // a alone balances memory best
  EngineOptions two = options(2, 100);
  two.placement.weight = 0.01;  // rates decide, memory where there are none
  start(two);
  ASSERT_NE(places().at("a"), places().at("b"));
  ASSERT_EQ(places().at("b"), places().at("c"));
  ask("a", 10);
  ask("b", 20);
  ask("c", 10);
  // a has room beside c only after b has gone.
  engine_->end_epoch();
  EXPECT_EQ(places().at("a"), places().at("c"));
  EXPECT_NE(places().at("a"), places().at("b"));
  EXPECT_EQ(placement().moves, 2u);
  expect_within_memory();
  for (const char* model : {"a", "b", "c"}) EXPECT_TRUE(ask(model).status.ok());
}

TEST_F(ShortMemory, ARingWithoutRoomForOneMoreStays) {
  write({{"a", 60}, {"b", 30}, {"c", 60}, {"d", 30}});
  EngineOptions two = options(2, 100);
  start(two);
  const auto before = places();
  const std::string beside_a = before.at("b") == before.at("a") ? "b" : "d";
  ask("a", 20);
  ask(beside_a, 20);
  engine_->end_epoch();
  EXPECT_EQ(places(), before);
  EXPECT_EQ(placement().postponed, 2u);
  const PlacementDecision last = engine_->placement_decisions().front();
  ASSERT_THAT(last.changes, SizeIs(2));
  for (const PlacementChange& change : last.changes) {
    EXPECT_EQ(change.result, Result::kPostponed);
    EXPECT_THAT(change.reason, HasSubstr("no room"));
  }
  for (const char* model : {"a", "b", "c", "d"}) EXPECT_TRUE(ask(model).status.ok());
}

// Each request ends once, and well, whatever moves meanwhile.
TEST_F(ShortMemory, NoRequestIsLostByAMove) {
  write({{"a", 10}, {"b", 10}, {"c", 10}, {"d", 10}});
  EngineOptions two = options(2, 100);
  two.placement.subclusters = 2;
  two.placement.weight = 0.01;  // rates decide, memory where there are none
  start(two);
  constexpr size_t kRounds = 20, kEach = 50;
  std::vector<std::atomic<int>> replies(kRounds * kEach * 4), good(replies.size());
  const std::string names[] = {"a", "b", "c", "d"};
  const auto submit = [&](size_t at, const std::string& model, std::latch& all) {
    InferRequest one = request(model);
    one.arrival = engine_->now();
    engine_->submit(std::move(one), [&, at](ReplyPart part) {
      if (part.status.ok()) ++good[at];
      ++replies[at];
      all.count_down();
    });
  };
  for (size_t round = 0; round < kRounds; ++round) {
    std::latch all(kEach * 4);
    const auto now = places();
    const size_t first = round * kEach * 4;
    // Half of them, from one sub-cluster, are under way when the epoch ends, the others
    // arrive while models move.
    for (size_t i = 0; i < kEach * 2; ++i) {
      const bool busy = now.at(names[i % 4]) == round % 2;
      submit(first + i, busy ? names[i % 4] : names[(i / 4) % 4], all);
    }
    std::thread other([&] {
      for (size_t i = kEach * 2; i < kEach * 4; ++i) submit(first + i, names[i % 4], all);
    });
    engine_->end_epoch();
    other.join();
    all.wait();
  }
  EXPECT_GT(placement().moves, 0u);
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_EQ(replies[i], 1) << i;
    ASSERT_EQ(good[i], 1) << i;
  }
}

TEST_F(ShortMemory, WaitingRequestsAreCancelledWhereverTheyAre) {
  write({{"a", 60}});
  write_emulated(folder_, "slow", 1, 0, 100, 60);
  start(options(2, 100));
  std::promise<ReplyPart> running, waiting;
  const auto submit = [&](std::promise<ReplyPart>& to) {
    InferRequest one = request("slow");
    one.arrival = engine_->now();
    return engine_->submit(std::move(one),
                           [&to](ReplyPart part) { to.set_value(std::move(part)); });
  };
  submit(running);
  engine_->cancel(submit(waiting));
  EXPECT_EQ(waiting.get_future().get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(running.get_future().get().status.ok());
}

TEST_F(ShortMemory, ALoadedModelGoesWhereThereIsRoom) {
  write({{"a", 60}, {"b", 50}});
  start(options(2, 100));
  ASSERT_THAT(engine_->snapshot().subclusters, SizeIs(2));
  write({{"c", 50}, {"e", 50}});
  ASSERT_EQ(engine_->load("c"), absl::OkStatus());
  EXPECT_EQ(places().at("c"), places().at("b"));
  EXPECT_EQ(placement().moves, 0u);
  EXPECT_TRUE(ask("c").status.ok());
  const absl::Status full = engine_->load("e");
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(full.message()), HasSubstr("no room: it needs 50 MiB"));
  EXPECT_TRUE(ask("a").status.ok());
  ASSERT_TRUE(engine_->unload("b").ok());
  EXPECT_EQ(engine_->load("e"), absl::OkStatus());
  EXPECT_TRUE(ask("e").status.ok());
  expect_within_memory();
}

TEST_F(ShortMemory, OthersMoveWhereALoadedModelHasNoRoomOtherwise) {
  write({{"a", 40}, {"b", 40}});
  EngineOptions two = options(2, 100);
  two.placement.subclusters = 2;
  start(two);
  ASSERT_NE(places().at("a"), places().at("b"));
  write({{"c", 70}});
  ASSERT_EQ(engine_->load("c"), absl::OkStatus());
  EXPECT_EQ(placement().moves, 1u);
  EXPECT_EQ(places().at("a"), places().at("b"));
  EXPECT_EQ(engine_->placement_decisions().front().cause, "load");
  for (const char* model : {"a", "b", "c"}) EXPECT_TRUE(ask(model).status.ok());
  expect_within_memory();
}

TEST_F(ShortMemory, AReloadNeedsRoomBesideTheOldVersion) {
  write({{"a", 60}, {"b", 60}});
  start(options(2, 100));
  const absl::Status full = engine_->load("a");
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(full.message()), HasSubstr("unload the model first"));
  EXPECT_TRUE(ask("a").status.ok());
  ASSERT_TRUE(engine_->unload("b").ok());
  EXPECT_EQ(engine_->load("a"), absl::OkStatus());  // where b was
  EXPECT_TRUE(ask("a").status.ok());
  expect_within_memory();
}

TEST_F(ShortMemory, OptionsAreChecked) {
  write({{"a", 1}});
  EngineOptions bad = options(2, 100);
  bad.placement.subclusters = 3;
  EXPECT_THAT(std::string(make_engine(bad).status().message()),
              HasSubstr("placement.subclusters is 3, expected 1 to workers.count, 2"));
  bad = options(2, 0);
  EXPECT_THAT(std::string(make_engine(bad).status().message()),
              HasSubstr("workers.memory_mb is 0"));
}

}  // namespace
}  // namespace fermata::engine
