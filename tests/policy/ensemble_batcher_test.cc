#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/random.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/ensemble/pool_document.h"
#include "policy/ensemble/ensemble_lookahead.h"
#include "policy/ensemble_hand.h"

namespace fermata::policy {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

// Three networks as the demo's scans have: easy and hard queries, more models are worth a little
// more each.
const std::vector<std::vector<double>> kScans = {{0, 0.98, 0.98, 1, 0.99, 1, 1, 1},
                                                 {0, 0.6, 0.7, 0.8, 0.75, 0.85, 0.9, 1}};

// As items of one request: all at once, and nothing after them.
TEST(EnsembleBatcher, AnswersManyQueriesThatComeAtOnce) {
  for (const uint32_t workers : {1u, 2u, 4u}) {
    for (const bool serve_all : {false, true}) {
      for (const int queries : {30, 200, 500}) {
        EnsembleHand h("fermata");
        const KeyId e = h.ensemble({1.5, 2.5, 4}, kScans, 0.5, serve_all);
        for (uint32_t w = 0; w < workers; ++w) h.worker();
        std::vector<Task> tasks;
        for (int i = 0; i < queries; ++i) tasks.push_back(h.arrive(e, 0, 20'000));
        h.note();
        for (int i = 0; i < queries; ++i) {
          h.scored(tasks[i], i % 3 < 2 ? i % 3 : Difficulty::kUnknown, 0.5), h.note();
        }
        h.now = at_ms(0.5);
        h.run_until(21'000);
        EXPECT_THAT(h.concluded, SizeIs(queries)) << workers << " workers";
        EXPECT_THAT(h.dropped, IsEmpty());
        // Every model for everybody takes one worker that long, one by one.
        EXPECT_LE(h.now, at_ms(queries * 8.0)) << queries << " on " << workers;
        EXPECT_THAT(h.concluded, Each(Field(&Concluded::ran, 7u)));
      }
    }
  }
}

// Its process is gone: others run meanwhile, and the query waits for it as long as it may.
TEST(EnsembleBatcher, AModelThatIsAwayRunsAgainWhenItIsBack) {
  for (const bool returns : {true, false}) {
    EnsembleHand h("fermata");
    const KeyId e = h.ensemble({10, 4}, {{0, 0.8, 0.8, 1}});
    const WorkerId worker = h.worker();
    const Task query = h.arrive(e, 0, 200);
    EXPECT_EQ(h.batch().key, h.models[1]);
    const std::vector<Task> away = {query};
    h.scheduler->ended({worker, {}, away}, at_ms(4), h.out);
    EXPECT_EQ(h.batch().key, h.models[0]);
    h.freed(worker, 14);
    h.tick(14);
    EXPECT_THAT(h.out.bound, IsEmpty());
    EXPECT_THAT(h.out.concluded, IsEmpty());
    if (returns) {
      h.scheduler->learned(query, Again{h.models[1]}, at_ms(20), h.out);
      h.tick(20);
      EXPECT_EQ(h.batch().key, h.models[1]);
      h.freed(worker, 24);
      h.tick(24);
    } else {
      h.run_until(300);
    }
    h.note();
    ASSERT_THAT(h.concluded, SizeIs(1));
    EXPECT_EQ(h.concluded[0].ran, returns ? 3u : 1u);
    EXPECT_EQ(h.concluded[0].failed, 0u);
  }
}

// Only for one of them a worker is free at once.
TEST(EnsembleBatcher, AModelThatIsBackIsWaitedForByAllItsQueries) {
  EnsembleHand h("fermata");
  const KeyId e = h.ensemble({10, 4}, {{0, 0.8, 0.8, 1}});
  const WorkerId worker = h.worker();
  const std::vector<Task> queries = {h.arrive(e, 0, 400), h.arrive(e, 0, 400)};
  double now = 0;
  while (!h.out.bound.empty() && now < 100) {
    const Batch batch = h.batch();
    now = (batch.finish - Time()).millis();
    if (batch.key == h.models[1]) {
      h.scheduler->ended({worker, {}, batch.tasks}, at_ms(now), h.out);
    } else {
      h.freed(worker, now);
    }
    h.tick(now);
  }
  for (const Task& query : queries) {
    h.scheduler->learned(query, Again{h.models[1]}, at_ms(now), h.out);
    h.tick(now);
  }
  EXPECT_THAT(h.out.concluded, IsEmpty());
  h.run_until(now + 100);
  ASSERT_THAT(h.concluded, SizeIs(2));
  for (const Concluded& each : h.concluded) EXPECT_EQ(each.ran, 3u);
}

// So that others who come meanwhile wait for less.
TEST(EnsembleBatcher, OfAQuerysModelsTheShorterRunsFirst) {
  EnsembleHand h("fermata");
  const KeyId e = h.ensemble({10, 4}, {{0, 0.8, 0.8, 1}});
  h.worker();
  h.arrive(e, 0, 60);
  ASSERT_THAT(h.out.bound, SizeIs(1));
  EXPECT_EQ(h.out.bound[0].key, h.models[1]);
  h.run_until(100);
  ASSERT_THAT(h.concluded, SizeIs(1));
  EXPECT_EQ(h.concluded[0].ran, 3u);
}

// What a query would have had at the price of worker time, were there time for it.
TEST(EnsembleBatcher, AConclusionSaysWhatWasWanted) {
  EnsembleHand h("fermata");
  const KeyId e = h.ensemble({4, 30}, {{0, 0.8, 0.8, 1}});
  h.worker();
  h.arrive(e, 0, 20);
  h.run_until(30);
  ASSERT_THAT(h.concluded, SizeIs(1));
  EXPECT_EQ(h.concluded[0].ran, 1u);
  EXPECT_EQ(h.concluded[0].wanted, 3u);
  h.now = at_ms(100);
  h.arrive(e, 100, 50);
  h.run_until(200);
  ASSERT_THAT(h.concluded, SizeIs(2));
  EXPECT_EQ(h.concluded[1].ran, 3u);
}

// What the document of each decision plans is what was bound.
TEST(EnsembleBatcher, EveryDecisionThatIsKeptCanBeReplayed) {
  for (const bool serve_all : {false, true}) {
    Random random(7);
    EnsembleHand h("fermata");
    const KeyId three = h.ensemble({1.5, 2.5, 4}, kScans, 0.5, serve_all);
    const KeyId two = h.ensemble({3, 5}, {{0, 0.7, 0.8, 0.9}}, 1);
    for (int w = 0; w < 3; ++w) h.worker();
    std::vector<Batch> bound;
    const auto note = [&] {
      bound.insert(bound.end(), h.out.bound.begin(), h.out.bound.end());
      h.note();
    };
    for (int i = 0; i < 600; ++i) {
      const Task task = h.arrive(random.below(3) == 0 ? two : three, i, 5 + 40 * random.uniform());
      note();
      h.scored(task, static_cast<uint32_t>(random.below(2)), i), note();
      while (!h.running.empty() && h.running.begin()->first <= at_ms(i)) {
        const WorkerId worker = h.running.begin()->second.worker;
        h.running.erase(h.running.begin());
        h.freed(worker, i), note();
      }
      h.tick(i), note();
    }
    const std::vector<Problem> kept = h.scheduler->last_problems();
    ASSERT_THAT(kept, SizeIs(100));
    size_t started = 0;
    for (const Problem& each : kept) {
      const auto& problem = std::get<plan::PoolProblem>(each);
      plan::PoolProblem named = problem;
      for (size_t m = 0; m < named.models.size(); ++m) named.models[m].name = std::to_string(m);
      named.ensembles.back().name += "'";
      auto document = Document::parse(plan::to_document(named).dump());
      const auto read = document->read(plan::read_any_ensemble_task);
      ASSERT_TRUE(read.ok()) << read.status();
      EnsembleLookahead planner;
      const plan::PoolPlan plan = planner.plan(std::get<plan::PoolProblem>(*read));
      if (plan.queries.empty()) continue;
      ++started;
      std::set<std::string> planned, ran;
      for (const uint32_t q : plan.queries) planned.insert(problem.queries[q].id);
      const auto same = [&](const Batch& b) {
        return b.start == problem.start &&
               b.worker.value() == std::stoul(problem.workers[problem.worker].name);
      };
      const auto batch = std::find_if(bound.begin(), bound.end(), same);
      ASSERT_NE(batch, bound.end());
      EXPECT_EQ(batch->finish - batch->start, plan.run);
      for (const Task& task : batch->tasks) ran.insert(std::to_string(task.job.value()));
      EXPECT_EQ(ran, planned);
    }
    EXPECT_GE(started, 60u);
  }
}

// One query of an ensemble whose second model takes 50 ms for 0.1 more.
struct Dear {
  using Row = std::vector<double>;
  plan::PoolProblem problem;

  Dear() {
    problem.start = at_ms(0);
    problem.workers = {{"w"}};
    problem.models = {{"a", linear(0, 10, 1)}, {"b", linear(0, 50, 1)}};
    ensemble({0, 1}, {0, 0.8, 0.8, 0.9});
  }
  void ensemble(std::vector<uint32_t> models, Row row) {
    problem.queries.push_back({.id = std::to_string(problem.queries.size()),
                               .ensemble = static_cast<uint32_t>(problem.ensembles.size()),
                               .arrival = at_ms(0),
                               .deadline = at_ms(1000),
                               .open = (plan::Subset{1} << models.size()) - 1});
    problem.ensembles.push_back({.name = "e" + std::to_string(problem.ensembles.size()),
                                 .models = std::move(models),
                                 .spread = Duration::millis(1000),
                                 .slo = Duration::millis(1000),
                                 .last = at_ms(0)});
    problem.ensembles.back().utility =
        std::make_shared<const plan::PoolProblem::Utilities>(1, std::move(row));
  }
  std::vector<plan::Subset> planned(double price) {
    problem.others_price = price;
    std::vector<plan::Subset> found;
    EnsembleLookahead lookahead;
    for (const auto& each : lookahead.plan(problem).planned) found.push_back(each.subset);
    return found;
  }
};

// A second is worth 5 of others' requests: 50 ms more are not worth 0.1 of one's own. However much
// it is worth, some model answers.
TEST(EnsembleLookahead, OthersPriceIsTheLeast) {
  Dear d;
  d.problem.ensembles[0].co_arrivals = 1;
  EXPECT_THAT(d.planned(0), ElementsAre(0b11u));
  EXPECT_THAT(d.planned(5), ElementsAre(0b01u));
  EXPECT_THAT(d.planned(1e6), ElementsAre(0b01u));
}

// The dearest that one ensemble still bears, by ten in a second or by a hundred, says nothing of
// another: each keeps an answer.
TEST(EnsembleLookahead, OthersPriceLeavesAnAnswerToEveryEnsemble) {
  Dear d;
  d.problem.models.insert(d.problem.models.end(),
                          {{"slow", linear(0, 200, 1)}, {"slower", linear(0, 300, 1)}});
  d.ensemble({2, 3}, {0, 0.6, 0.6, 0.9});
  for (auto& ensemble : d.problem.ensembles) ensemble.co_arrivals = 1;
  EXPECT_THAT(d.planned(0), ElementsAre(0b11u, 0b11u));
  EXPECT_THAT(d.planned(1e6), ElementsAre(0b01u, 0b01u));
}

// What a model that has failed would have earned says nothing of what the others do.
TEST(EnsembleLookahead, OthersPriceLeavesAnAnswerWhereTheCheapestModelHasFailed) {
  Dear d;
  d.problem.ensembles[0].co_arrivals = 1;
  d.problem.queries[0].open = 0b10;
  EXPECT_THAT(d.planned(1e6), ElementsAre(0b10u));
}

// What is expected within an SLO leaves time for both models. What comes all the time does not: the
// time goes to the half of the queries to whom the second model adds more.
TEST(EnsembleLookahead, TimeCostsWhatKeepsTheWorkersUpWithTheLoad) {
  Dear d;
  d.problem.ensembles[0].co_arrivals = 1;
  d.problem.ensembles[0].utility = std::make_shared<const plan::PoolProblem::Utilities>(
      plan::PoolProblem::Utilities{{0, 0.8, 0.8, 0.9}, {0, 0.8, 0.8, 0.84}, {0, 0.8, 0.8, 0.87}});
  for (const uint32_t row : {0u, 1u}) {
    d.problem.queries[0].row = row;
    d.problem.ensembles[0].rate_rps = 20;
    EXPECT_THAT(d.planned(0), ElementsAre(0b11u)) << row;
    d.problem.ensembles[0].rate_rps = 60;
    EXPECT_THAT(d.planned(0), ElementsAre(row == 0 ? 0b11u : 0b01u)) << row;
  }
}

// However many come, time is never so dear that nobody is answered.
TEST(EnsembleLookahead, ExtremeOverloadIsAnsweredAsFarAsItCanBe) {
  for (const double rate : {1e2, 1e3, 1e6}) {
    Dear d;
    d.problem.models[0].latency = linear(1, 9, 16);
    d.problem.ensembles[0].co_arrivals = 64;
    d.problem.ensembles[0].rate_rps = rate;
    EXPECT_THAT(d.planned(0), ElementsAre(testing::Ne(0u))) << rate;
    EXPECT_THAT(d.planned(1e6), ElementsAre(testing::Ne(0u))) << rate;
  }
}

// As for variants: where nothing else is to come the worker has nothing better to do.
TEST(EnsembleLookahead, AnIdleWorkerIsNotKeptForOthers) {
  Dear d;
  EXPECT_THAT(d.planned(1e6), ElementsAre(0b11u));
}

// A slow worker takes twice as long; a second of it is worth half as much to others as well.
TEST(EnsembleLookahead, OthersPriceIsTheSameForTheSameWorkOnHeterogeneousWorkers) {
  for (const uint32_t type : {0u, 1u}) {
    Dear d;
    d.problem.ensembles[0].co_arrivals = 1;
    d.problem.worker_types = {"fast", "slow"};
    d.problem.workers[0].type = type;
    d.problem.models = {{"a", LatencyByType({linear(0, 10, 1), linear(0, 20, 1)})},
                        {"b", LatencyByType({linear(0, 50, 1), linear(0, 100, 1)})}};
    EXPECT_THAT(d.planned(0.8), ElementsAre(0b11u)) << type;
    EXPECT_THAT(d.planned(1.2), ElementsAre(0b01u)) << type;
  }
}

// The second worker has nothing to do for it: it must not be asked again at the same moment.
TEST(EnsembleBatcher, AnIdleWorkerIsNotAskedForeverWhatItAddsToAQueryWithoutDeadline) {
  EnsembleHand hand("fermata");
  const KeyId e = hand.ensemble({10, 10}, {{0, 0.9, 0.8, 0.9}});
  hand.worker();
  hand.worker();
  hand.arrive_best_effort(e, 0);
  EXPECT_EQ(hand.out.bound.size(), 1u);
  hand.run_until(1000);
  EXPECT_EQ(hand.concluded.size(), 1u);
}

}  // namespace
}  // namespace fermata::policy
