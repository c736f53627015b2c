#include "plan/ensemble/ensemble_planner.h"

#include "plan/ensemble_fixture.h"

namespace fermata::plan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// What a plan says, as "query:subset@finish".
std::vector<std::string> lines(const EnsembleProblem& p, const EnsemblePlan& plan) {
  std::vector<std::string> out;
  for (const auto& s : plan.plan) {
    out.push_back(p.queries[s.query].id + ":" + std::to_string(s.subset) + "@" +
                  std::to_string(s.finish.nanos() / 1'000'000));
  }
  return out;
}

// Models of 10 and 20 ms (subsets 1 and 2; both: 3), the second busy for 5.
EnsembleProblem two_models() { return {.models = {{"a", ms(10), ms(0)}, {"b", ms(20), ms(5)}}}; }

TEST(EnsemblePlanner, EdfTakesTheBestThatIsStillOnTime) {
  EnsembleProblem p = two_models();
  p.queries = {query("late", 45, {0, 0.5, 0.6, 0.9}, 2), query("soon", 25, {0, 0.5, 0.6, 0.9}, 2),
               query("last", 46, {0, 0.5, 0.6, 0.9}, 2), query("none", 9, {0, 0.5, 0.6, 0.9}, 2)};
  EnsemblePlanner planner;
  const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kGreedyEdf);
  // soon: a until 10, b until 25. late: a until 20, b until 45. last: b would end at 65.
  EXPECT_THAT(lines(p, plan), ElementsAre("soon:3@25", "late:3@45", "last:1@30"));
  EXPECT_THAT(plan.unserved, ElementsAre(3));
  EXPECT_DOUBLE_EQ(plan.utility, 0.9 + 0.9 + 0.5);
}

TEST(EnsemblePlanner, FifoGoesByArrivalSjfByDifficulty) {
  EnsembleProblem p = two_models();
  p.queries = {query("x", 30, {0, 0.4, 0, 0}, 2), query("y", 10, {0, 0.7, 0, 0}, 2),
               query("z", 20, {0, 0.5, 0, 0}, 2)};
  for (size_t i = 0; i < 3; ++i) p.queries[i].arrival = ms(i == 2 ? -9 : -3);
  for (size_t i = 0; i < 3; ++i) p.queries[i].difficulty = i == 0 ? 0.9 : 0.2;
  EnsemblePlanner planner;
  // z came first; x and y together, so x as the document has it; y's 10 ms are over.
  const EnsemblePlan& fifo = planner.plan(p, EnsemblePolicy::kGreedyFifo);
  EXPECT_THAT(lines(p, fifo), ElementsAre("z:1@10", "x:1@20"));
  EXPECT_THAT(fifo.unserved, ElementsAre(1));
  const EnsemblePlan& sjf = planner.plan(p, EnsemblePolicy::kGreedySjf);
  EXPECT_THAT(lines(p, sjf), ElementsAre("y:1@10", "z:1@20", "x:1@30"));
}

TEST(EnsemblePlanner, OriginalRunsAllModelsOrRefuses) {
  EnsembleProblem p = two_models();
  p.queries = {query("x", 44, {0, 0.9, 0.9, 0.9}, 2), query("y", 25, {0, 0.9, 0.9, 0}, 2),
               query("z", 45, {0, 0.9, 0.9, 0.8}, 2)};
  p.queries[0].arrival = ms(1);
  p.queries[2].arrival = ms(2);
  EnsemblePlanner planner;
  // b: y until 25; x would end at 45, a millisecond late, so z does.
  const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kOriginal);
  EXPECT_THAT(lines(p, plan), ElementsAre("y:3@25", "z:3@45"));
  EXPECT_THAT(plan.unserved, ElementsAre(0));
  EXPECT_DOUBLE_EQ(plan.utility, 0.8);
}

TEST(EnsemblePlanner, DpSparesModelsForOthers) {
  EnsembleProblem p = two_models();
  // Greedily x takes both models, and a is free for y at 20 only, b at 45.
  p.queries = {query("x", 25, {0, 0.8, 0.85, 0.95}, 2), query("y", 26, {0, 0.2, 0.9, 0.9}, 2)};
  EnsemblePlanner planner;
  EXPECT_THAT(lines(p, planner.plan(p, EnsemblePolicy::kGreedyEdf)),
              ElementsAre("x:3@25", "y:1@20"));
  const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kDp);
  EXPECT_THAT(lines(p, plan), ElementsAre("x:1@10", "y:2@25"));
  EXPECT_DOUBLE_EQ(plan.utility, 0.8 + 0.9);
}

TEST(EnsemblePlanner, EqualUtilitiesTakeLessTimeThenTheFirst) {
  EnsemblePlanner planner;
  EnsembleProblem p = two_models();
  p.models[1].busy = ms(0);
  for (const EnsemblePolicy policy : {EnsemblePolicy::kDp, EnsemblePolicy::kGreedyEdf}) {
    p.queries = {query("x", 100, {0, 0.7, 0.7, 0.7}, 2)};
    EXPECT_THAT(lines(p, planner.plan(p, policy)), ElementsAre("x:1@10"));
    // Room for one of two that are alike.
    p.queries = {query("x", 10, {0, 0.7, 0, 0}, 2), query("y", 10, {0, 0.7, 0, 0}, 2)};
    EXPECT_THAT(lines(p, planner.plan(p, policy)), ElementsAre("x:1@10"));
    // Models that are alike: the first.
    EnsembleProblem alike = p;
    alike.models[1].latency = ms(10);
    alike.queries = {query("x", 10, {0, 0.7, 0.7, 0.7}, 2)};
    EXPECT_THAT(lines(alike, planner.plan(alike, policy)), ElementsAre("x:1@10"));
  }
  // 0.1 + 0.7 and 0.3 + 0.5 are worth the same, though their sums as doubles are not; the first
  // takes 30 ms of the models, the second 40.
  p.queries = {query("x", 20, {0, 0.1, 0, 0.3}, 2), query("y", 20, {0, 0.5, 0.7, 0}, 2)};
  EXPECT_THAT(lines(p, planner.plan(p, EnsemblePolicy::kDp)), ElementsAre("x:1@10", "y:2@20"));
}

TEST(EnsemblePlanner, WithoutDeadlinesEveryoneGetsTheBest) {
  EnsembleProblem p = two_models();
  for (int i = 0; i < 64; ++i) {
    p.queries.push_back(query("q" + std::to_string(i), 0, {0, 0.5, 0.6, 0.9}, 2));
    p.queries.back().deadline = Duration::infinite();
  }
  EnsemblePlanner planner;
  const EnsemblePlan& plan = planner.plan(p, EnsemblePolicy::kDp);
  check_ensemble_plan(p, plan);
  EXPECT_NEAR(plan.utility, 64 * 0.9, 1e-9);
  EXPECT_THAT(plan.unserved, IsEmpty());
}

TEST(EnsemblePlanner, NothingToDo) {
  EnsemblePlanner planner;
  EnsembleProblem p = two_models();
  for (size_t policy = 0; policy < ensemble_policy_names().size(); ++policy) {
    p.queries.clear();
    EXPECT_THAT(planner.plan(p, static_cast<EnsemblePolicy>(policy)).plan, IsEmpty());
    // Over before it is asked for, or worth nothing.
    p.queries = {query("x", 0, {0, 1, 1, 1}, 2), query("y", 0, {}, 2)};
    p.queries[0].deadline = ms(-5);
    const EnsemblePlan& plan = planner.plan(p, static_cast<EnsemblePolicy>(policy));
    EXPECT_THAT(plan.plan, IsEmpty());
    EXPECT_THAT(plan.unserved, ElementsAre(0, 1));
  }
}

}  // namespace
}  // namespace fermata::plan
