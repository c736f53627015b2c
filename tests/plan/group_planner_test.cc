#include "plan/variants/group_planner.h"

#include <gmock/gmock.h>

#include "plan/group_fixture.h"

namespace fermata::plan {
namespace {

using testing::ElementsAre;

TEST(GroupResidency, TheLeastRecentlyUsedGoes) {
  GroupHand h;
  for (int i = 0; i < 3; ++i) h.model(0, 2);
  h.worker().memory_bytes = int64_t{4} << 20;
  h.problem.workers[0].loaded = {0, 1};
  Residency residency;
  residency.reset(h.problem.workers[0], h.problem.models);
  EXPECT_FALSE(residency.use(0));  // 1 is the older now
  EXPECT_TRUE(residency.use(2));
  EXPECT_THAT(residency.loaded(), ElementsAre(0, 2));
  EXPECT_TRUE(residency.use(1));
  EXPECT_THAT(residency.loaded(), ElementsAre(2, 1));
}

// Equation 12: 1 * e^-0.1 = 0.9048 for r0; accuracies 0.5 and 0.9 have the variance 0.04, so
// 1.04 * e^-0.12 = 0.9224 for r1.
TEST(GroupPlanner, PriorityWeighsTheChoiceThatVariantsLeave) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 0, 10);
  h.request(100);
  h.service();
  h.variant(0.5, 0, 5);
  h.variant(0.9, 0, 10);
  h.request(120);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoPriority)), "w0/v1[r1] 0-10, w0/v0[r0] 10-20");
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "w0/v0[r0] 0-10, w0/v1[r1] 10-20");
}

// v0 takes 10 ms alone and 2 more for each that joins, v1 3 ms. Alone, one after the other, r0
// would end at 10, r1 at 20 and r2 at 30, after its deadline: it takes v1, until 23. Then r0
// and r1 join.
TEST(GroupPlanner, RequestsChooseAloneAndJoinAfterwards) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 2, 8);
  h.variant(0.6, 1, 2);
  h.request(20);
  h.request(24);
  h.request(25);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "w0/v0[r0 r1] 0-12, w0/v1[r2] 12-15");
  EXPECT_DOUBLE_EQ(h.plan(GroupPolicy::kLoEdf).utility, (0.9 + 0.9 + 0.6) / 3);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kMaxAccEdf)), "w0/v0[r0 r1 r2] 0-14");
}

// Both deadlines are 11. Group 0 has the higher priority (variance 0.0025) and takes its better
// variant until 10, so group 1 is late: 0.9 / 2. The fast variant leaves room: (0.8 + 0.9) / 2.
TEST(GroupPlanner, ExactUpToTauGroupsAndGreedyAbove) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 0, 10);
  h.variant(0.8, 0, 2);
  h.request(11);
  h.service();
  h.variant(0.9, 0, 9);
  h.request(11);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v1[r0] 0-2, w0/v0[r1] 2-11");
  EXPECT_TRUE(h.planner.plan(h.problem).exact);
  EXPECT_DOUBLE_EQ(h.planner.plan(h.problem).utility, 0.85);
  h.problem.tau = 1;
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v0[r0] 0-10, w0/v0[r1] 10-19");
  EXPECT_FALSE(h.planner.plan(h.problem).exact);
  EXPECT_DOUBLE_EQ(h.planner.plan(h.problem).utility, 0.45);
}

struct TwoLabels : testing::Test {
  TwoLabels() {
    h.worker();
    h.service().prior = {0.5, 0.5};
    h.variant(0.7, 1, 4).recall = {0.9, 0.5};
    h.variant(0.7, 1, 4).recall = {0.5, 0.9};
    h.request(100, {5, 0});
    h.request(101, {0, 5});
    h.request(102, {1, 1});  // 0.5 and 0.5: not split off
    h.request(103);
  }
  GroupHand h;
};

// Posterior of r0: 5.5/6 and 0.5/6, so v0 brings 0.9 * 5.5/6 + 0.5 * 0.5/6 = 5.2/6, as v1 for r1.
TEST_F(TwoLabels, SneakPeekSplitsGroupsByLabel) {
  const GroupSchedule& s = h.plan(GroupPolicy::kSneakPeek);
  EXPECT_EQ(text(h.problem, s), "w0/v0[r0] 0-5, w0/v1[r1] 5-10, w0/v0[r2 r3] 10-16");
  EXPECT_THAT(s.expected_accuracy,
              ElementsAre(testing::DoubleEq(5.2 / 6), testing::DoubleEq(5.2 / 6), 0.7, 0.7));
}

TEST_F(TwoLabels, GroupedLooksAtTheDataOnlyWhenTold) {
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v0[r0 r1 r2 r3] 0-8");
  EXPECT_EQ(h.plan(GroupPolicy::kGrouped).expected_accuracy[0], 0.7);
  h.problem.data_aware = true;
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v0[r0 r1 r2 r3] 0-8");
  EXPECT_DOUBLE_EQ(h.plan(GroupPolicy::kGrouped).expected_accuracy[0], 5.2 / 6);
  h.problem.data_aware = false;
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kSneakPeek)), "w0/v0[r0 r1 r2 r3] 0-8");
  h.problem.data_aware = true;
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)),
            "w0/v0[r0] 0-5, w0/v1[r1] 5-10, w0/v0[r2 r3] 10-16");
}

// Nothing ends by 5, and the evidence model has answered already.
TEST(GroupPlanner, TheShortCircuitSavesWhatIsLateOtherwise) {
  GroupHand h;
  h.worker();
  h.service().prior = {0.5, 0.5};
  h.problem.services[0].short_circuit = {"knn", 0.6};
  h.variant(0.9, 0, 10).recall = {0.9, 0.9};
  h.request(5, {1, 1});
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kSneakPeek)), "short r0");
  EXPECT_DOUBLE_EQ(h.planner.plan(h.problem).utility, 0.6);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "w0/v0[r0] 0-10");
  h.problem.short_circuit = true;
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "short r0");
  // Never the most accurate.
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kMaxAccEdf)), "w0/v0[r0] 0-10");
  h.request(5);  // of the same group, without evidence: none of it may
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kSneakPeek)), "w0/v0[r0 r1] 0-10");
}

// The better variant would have to be loaded for 8 ms, until 18.
TEST(GroupPlanner, LoadingCountsAndHappensOnce) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 0, 10, 64, 8);
  h.variant(0.8, 0, 12);
  h.problem.workers[0].loaded = {1};
  h.request(17);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "w0/v1[r0] 0-12");
  h.problem.requests[0].deadline = at_ms(18);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "w0/v0[r0] 0-18");
  EXPECT_TRUE(h.planner.plan(h.problem).batches[0].load);
  h.request(60);
  h.problem.services[0].variants[0].latency = {linear(0, 10, 1)};
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v0[r0] 0-18, w0/v0[r1] 18-28");
  EXPECT_FALSE(h.planner.plan(h.problem).batches[1].load);
}

TEST(GroupPlanner, LargeGroupsRunAsBatchesInPriorityOrder) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 2, 8, 2);
  for (double deadline = 100; deadline >= 60; deadline -= 10) h.request(deadline);
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)),
            "w0/v0[r4 r3] 0-12, w0/v0[r2 r1] 12-24, w0/v0[r0] 24-34");
  h.problem.max_group = 3;  // batches do not cross groups
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)),
            "w0/v0[r4 r3] 0-12, w0/v0[r2] 12-22, w0/v0[r1 r0] 22-34");
}

TEST(GroupPlanner, HeterogeneousWorkersShareTheWork) {
  GroupHand h;
  h.problem.worker_types = {"slow", "fast"};
  h.worker();
  h.worker().type = 1;
  h.service();
  h.variant(0.9, 0, 1).latency = {linear(0, 30), linear(0, 10)};
  h.request(20);
  h.service();
  h.variant(0.9, 0, 1).latency = {linear(0, 15), linear(0, 12)};
  h.request(20);
  // The second group fits the deadline on the slow worker only if the first is not there.
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v0[r1] 0-15, w1/v0[r0] 0-10");
  h.problem.tau = 0;  // each where it finishes first: 10 on the fast one, then 15 before 22
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v0[r1] 0-15, w1/v0[r0] 0-10");
}

TEST(GroupPlanner, TiesGoToTheFasterVariantThenToTheDocument) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 0, 10);
  h.variant(0.9, 0, 6);
  h.variant(0.9, 0, 6);
  h.request(50);
  h.service();
  h.variant(0.8, 0, 3);
  h.request(50);
  for (const uint32_t tau : {5u, 0u}) {
    h.problem.tau = tau;
    EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kGrouped)), "w0/v1[r0] 0-6, w0/v0[r1] 6-9");
  }
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kLoEdf)), "w0/v1[r0] 0-6, w0/v0[r1] 6-9");
  EXPECT_EQ(text(h.problem, h.plan(GroupPolicy::kMaxAccEdf)), "w0/v1[r0] 0-6, w0/v0[r1] 6-9");
}

TEST(GroupPlanner, AnEmptyWindowIsAnEmptySchedule) {
  GroupHand h;
  h.worker();
  h.service();
  h.variant(0.9, 0, 10);
  for (int policy = 0; policy < 5; ++policy) {
    const GroupSchedule& s = h.plan(static_cast<GroupPolicy>(policy));
    EXPECT_TRUE(s.feasible);
    EXPECT_EQ(s.utility, 0);
    EXPECT_TRUE(s.batches.empty());
  }
}

// Every policy on anything; a planner that has planned other problems before answers as a new one.
TEST(GroupPlanner, SchedulesAreSoundAndDeterministic) {
  Random random(11);
  GroupPlanner planner;
  for (int i = 0; i < 1000; ++i) {
    GroupProblem problem = random_group_problem(random);
    problem.policy = static_cast<GroupPolicy>(random.below(5));
    problem.tau = static_cast<uint32_t>(random.below(10));
    if (random.below(3) == 0) problem.short_circuit = true;
    if (random.below(3) == 0) problem.data_aware = true;
    if (random.below(3) == 0) problem.max_group = static_cast<uint32_t>(1 + random.below(3));
    if (random.below(3) == 0) problem.max_steps = 1 + random.below(200);
    const GroupSchedule schedule = planner.plan(problem);
    GroupPlanner fresh;
    EXPECT_EQ(text(problem, schedule), text(problem, fresh.plan(problem)));
    if (schedule.feasible) check_group_schedule(problem, schedule);
  }
}

}  // namespace
}  // namespace fermata::plan
