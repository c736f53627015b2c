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

}  // namespace
}  // namespace fermata::policy
