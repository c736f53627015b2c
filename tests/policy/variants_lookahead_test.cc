#include "policy/variants/variants_lookahead.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/document.h"
#include "plan/group_fixture.h"
#include "plan/variants/group_document.h"
#include "policy/variants/any_group_planner.h"

namespace fermata::policy {
namespace {

using testing::ElementsAre;

// Plans by price alone: arrivals are expected at no rate, so published plans are left out.
struct LookaheadHand : plan::GroupHand {
  VariantsLookahead lookahead;

  const plan::GroupSchedule& by_price() {
    problem.expected.resize(problem.services.size());
    return lookahead.plan(problem);
  }
  std::string prices() { return text(problem, by_price()); }
  // The variant that serves each request.
  std::vector<int> variants() {
    const plan::GroupSchedule& s = by_price();
    std::vector<int> by_request(problem.requests.size(), -1);
    for (const plan::GroupBatch& b : s.batches) {
      for (const uint32_t r : s.requests_of(b)) by_request[r] = static_cast<int>(b.variant);
    }
    return by_request;
  }
};

TEST(Lookahead, AnIdleWorkerGivesTheMostAccurateVariant) {
  LookaheadHand h;
  h.worker();
  h.service();
  h.variant(0.7, 1, 1);
  h.variant(0.9, 2, 8);
  h.request(100);
  EXPECT_EQ(h.prices(), "w0/v1[r0] 0-10");
  EXPECT_DOUBLE_EQ(h.by_price().utility, 0.9);
}

// The accurate variant would serve one in 12 ms, the cheap one all ten in 11.
TEST(Lookahead, ABurstGetsTheVariantThatBearsIt) {
  LookaheadHand h;
  h.worker();
  h.service();
  h.variant(0.9, 10, 0, 1);
  h.variant(0.7, 1, 1);
  for (int i = 0; i < 10; ++i) h.request(12);
  EXPECT_EQ(h.prices(), "w0/v1[r0 r1 r2 r3 r4 r5 r6 r7 r8 r9] 0-11");
}

// Until 20 the accurate variant serves one, at 10 ms, beside the four in 5 ms of the cheap
// one. That knows class 0 almost as well; r2 is of class 1.
TEST(Lookahead, TheDataSaysWhoCanDoWithTheCheapVariant) {
  LookaheadHand h;
  h.worker();
  h.service().prior = {0.5, 0.5};
  h.variant(0.95, 10, 0, 1).recall = {0.95, 0.95};
  h.variant(0.7, 1, 1).recall = {0.94, 0.4};
  for (int i = 0; i < 5; ++i)
    h.request(20, i == 2 ? std::vector<double>{0, 5} : std::vector<double>{5, 0});
  EXPECT_THAT(h.variants(), ElementsAre(1, 1, 0, 1, 1));
  h.problem.data_aware = false;  // then all look alike
  EXPECT_THAT(h.variants(), ElementsAre(1, 1, 1, 1, 1));
}

// All three would end at 14; two end at 10, and the third at 16.
TEST(Lookahead, ATightDeadlineGetsASmallerBatch) {
  LookaheadHand h;
  h.worker();
  h.service();
  h.variant(0.9, 4, 2);
  h.request(10);
  h.request(10);
  h.request(30);
  EXPECT_EQ(h.prices(), "w0/v0[r0 r1] 0-10, w0/v0[r2] 10-16");
}

// Two of four end at 10, all of them would at 18 and none in time.
TEST(Lookahead, WhereAllTogetherWouldBeLateSomeAreNot) {
  LookaheadHand h;
  h.worker();
  h.service();
  h.variant(0.9, 4, 2);
  for (int i = 0; i < 4; ++i) h.request(10);
  EXPECT_DOUBLE_EQ(h.by_price().utility, 2 * 0.9 / 4);
  check_group_schedule(h.problem, h.by_price());
}

// The first can be late only; the others still can be on time, in a batch of two.
TEST(Lookahead, OneThatIsLateAnywayDoesNotMakeOthersLate) {
  LookaheadHand h;
  h.worker();
  h.service({plan::PenaltyShape::kLinear});
  h.variant(0.9, 4, 2);
  h.request(5);
  h.request(10);
  h.request(10);
  EXPECT_EQ(h.prices(), "w0/v0[r1 r2] 0-10, w0/v0[r0] 10-16");
}

TEST(Lookahead, ShortCircuitsWhatNothingElseEarnsMore) {
  LookaheadHand h;
  h.worker();
  plan::GroupService& a = h.service();
  a.prior = {0.5};
  a.short_circuit = {"knn", 0.6};
  h.variant(0.9, 0, 20).recall = {0.9};
  h.request(10, {3});
  h.request(30, {3});
  EXPECT_EQ(h.prices(), "w0/v0[r1] 0-20, short r0");
  EXPECT_DOUBLE_EQ(h.by_price().utility, (0.6 + 0.9) / 2);
  h.problem.short_circuit = false;
  EXPECT_EQ(h.prices(), "w0/v0[r1] 0-20, w0/v0[r0] 20-40");
}

TEST(Lookahead, WithoutEvidenceNothingIsShortCircuited) {
  LookaheadHand h;
  h.worker();
  h.service().short_circuit = {"knn", 0.6};
  h.variant(0.9, 0, 20);
  h.request(10);
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-20");
  EXPECT_EQ(h.by_price().utility, 0);
}

TEST(Lookahead, ASlowWorkerLeavesItToAFastOne) {
  LookaheadHand h;
  h.problem.worker_types = {"slow", "fast"};
  h.worker();
  h.worker(1).type = 1;
  h.service();
  h.variant(0.9, 0, 20).latency.push_back(linear(0, 5));
  h.request(10);
  EXPECT_EQ(h.prices(), "w1/v0[r0] 1-6");
}

// Loading takes the accurate variant beyond the deadline, unless another worker holds it.
TEST(Lookahead, LoadingCounts) {
  LookaheadHand h;
  h.worker().memory_bytes = int64_t{4} << 20;
  h.service();
  h.variant(0.9, 0, 10, 8, 50, 3);
  h.variant(0.7, 0, 5, 8, 20, 3);
  h.request(40);
  EXPECT_EQ(h.prices(), "w0/v1[r0] 0-25");
  h.problem.workers[0].loaded = {0};
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-10");
  h.problem.workers[0].memory_bytes = int64_t{2} << 20;
  h.problem.workers[0].loaded = {};
  EXPECT_FALSE(h.by_price().feasible);
  h.worker(3).memory_bytes = int64_t{3} << 20;
  EXPECT_EQ(h.prices(), "w1/v1[r0] 3-28");
}

TEST(Lookahead, WhatFitsNowhereIsInfeasibleOrShortCircuited) {
  LookaheadHand h;
  h.worker().memory_bytes = int64_t{2} << 20;
  plan::GroupService& a = h.service();
  a.prior = {0.5};
  h.variant(0.9, 0, 10, 8, 0, 3).recall = {0.9};
  h.request(40, {1});
  const plan::GroupSchedule& s = h.lookahead.plan(h.problem);
  EXPECT_FALSE(s.feasible);
  EXPECT_EQ(s.unserved, 0u);
  EXPECT_EQ(text(h.problem, s), "");
  h.problem.services[0].short_circuit = {"knn", 0.6};
  EXPECT_EQ(h.prices(), "short r0");
}

// Alone r0 has 40 ms of the worker. Where one comes every 10 ms, each with 20 ms, three of
// them would miss for 0.1.
TEST(Lookahead, WhatIsExpectedToComeMakesTimeDear) {
  LookaheadHand h;
  h.worker();
  h.service();
  h.variant(0.9, 40, 0, 1);
  h.variant(0.8, 2, 2);
  h.request(100);
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-40");
  h.problem.expected = {{100, Duration::millis(20)}};
  EXPECT_EQ(h.prices(), "w0/v1[r0] 0-4");
}

// One worker; r0 is the second's, whose cheap variant is nearly as good.
LookaheadHand two_services() {
  LookaheadHand h;
  h.worker();
  h.service();
  h.variant(0.5, 2, 2);
  h.variant(0.9, 40, 0, 1);
  h.service();
  h.variant(0.8, 2, 2);
  h.variant(0.9, 40, 0, 1);
  h.request(1000);
  return h;
}

// 75 a second of both are to be worked off: one worker bears that only with the cheap variants,
// and time is as dear as the other service makes it.
TEST(Lookahead, WhoWaitsUnseenMakesTimeDear) {
  LookaheadHand h = two_services();
  EXPECT_EQ(h.prices(), "w0/v1[r0] 0-40");
  h.problem.expected = {{0, Duration::seconds(1), 75}, {0, Duration::seconds(1), 75}};
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-4");
}

// By the profile the first service needs the accurate variant, by its data of late the cheap
// one does as well: then it leaves the worker to r0.
TEST(Lookahead, WhatTheDataOfOthersSaidMakesTimeCheap) {
  LookaheadHand h = two_services();
  h.problem.expected = {{0, Duration::seconds(1), 150}, {0, Duration::seconds(1), 1}};
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-4");
  const std::vector<double> recent = {0.9, 0.9, 0.88, 0.89};
  h.problem.expected[0].accuracies = recent;
  EXPECT_EQ(h.prices(), "w0/v1[r0] 0-40");
}

// Ten who wait take 0.4 of the worker with the accurate variant.
TEST(Lookahead, TheTimeThatOthersTakeIsNotToBeHad) {
  LookaheadHand h = two_services();
  h.problem.expected = {{0, Duration::seconds(1), 10}, {0, Duration::seconds(1), 1}};
  const auto prices = [&h](double others) {
    h.problem.others = others;
    return h.prices();
  };
  EXPECT_EQ(prices(0.3), "w0/v1[r0] 0-40");
  EXPECT_EQ(prices(0.9), "w0/v0[r0] 0-4");
}

// A second is worth 20 of others' requests: 36 ms more are not worth 0.1 of one's own. However much
// it is worth, some variant is run.
TEST(Lookahead, OthersPriceIsTheLeast) {
  LookaheadHand h = two_services();
  h.problem.expected = {{0, Duration::seconds(1), 1}, {0, Duration::seconds(1), 1}};
  const auto prices = [&h](double price) {
    h.problem.others_price = price;
    return h.prices();
  };
  EXPECT_EQ(prices(0), "w0/v1[r0] 0-40");
  EXPECT_EQ(prices(20), "w0/v0[r0] 0-4");
  EXPECT_EQ(prices(1e6), "w0/v0[r0] 0-4");
}

// Loading takes fifty times as long as a run, and more is expected before the worker would be idle
// for good: it is loaded all the same.
TEST(Lookahead, OthersPriceKeepsNoModelFromBeingLoaded) {
  LookaheadHand h;
  h.worker();
  h.service({plan::PenaltyShape::kNone});
  h.variant(0.9, 10, 0, 8, 500);
  h.request(1000);
  h.problem.expected = {{20, Duration::seconds(1), 1}};
  h.problem.others_price = 1e6;
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-510");
}

// Where nothing else is to come the worker has nothing better to do, whatever others lose.
TEST(Lookahead, AnIdleWorkerIsNotKeptForOthers) {
  LookaheadHand h;
  h.worker();
  h.service().prior = {0.5, 0.5};
  h.problem.services[0].short_circuit = {"knn", 0.6};
  h.variant(0.9, 50, 0, 1).recall = {0.95, 0.61};
  h.request(1000, {0, 5});
  h.problem.others_price = 1e6;
  EXPECT_EQ(h.prices(), "w0/v0[r0] 0-50");
}

// A slow worker takes twice as long; a second of it is worth half as much to others as well.
TEST(Lookahead, OthersPriceIsTheSameForTheSameWorkOnHeterogeneousWorkers) {
  for (const uint32_t type : {0u, 1u}) {
    LookaheadHand h;
    h.problem.worker_types = {"fast", "slow"};
    h.worker().type = type;
    h.service();
    h.variant(0.8, 10, 0, 1).latency.push_back(linear(20, 0, 1));
    h.variant(0.9, 50, 0, 1).latency.push_back(linear(100, 0, 1));
    h.request(1000);
    h.problem.expected = {{1, Duration::seconds(2), 1}};
    const auto variant = [&h](double price) {
      h.problem.others_price = price;
      return h.variants().at(0);
    };
    EXPECT_EQ(variant(0.8), 1) << type;
    EXPECT_EQ(variant(1.4), 0) << type;
  }
}

TEST(Lookahead, WithoutExpectedArrivalsAPublishedPlanIsTakenWhereItIsBetter) {
  Random random(7);
  std::vector<int> lower(plan::published_group_policy_names().size());
  std::vector<double> by_policy(lower.size());
  double worst = 0, sum = 0;
  for (int i = 0; i < 400; ++i) {
    plan::GroupProblem p = plan::random_group_problem(random);
    p.policy = plan::GroupPolicy::kFermata;
    AnyGroupPlanner lookahead;
    plan::GroupPlanner published;
    plan::GroupProblem alone = p;
    alone.expected.resize(p.services.size());
    const double by_price = lookahead.plan(alone).utility;
    sum += by_price;
    const plan::GroupSchedule& best = lookahead.plan(p);
    for (size_t policy = 0; policy < plan::published_group_policy_names().size(); ++policy) {
      plan::GroupProblem other = p;
      other.data_aware = other.short_circuit = true;
      other.policy = static_cast<plan::GroupPolicy>(policy);
      const plan::GroupSchedule& plan = published.plan(other);
      if (!plan.feasible) continue;
      EXPECT_GE(best.utility, plan.utility) << i << " " << plan::group_policy_names()[policy];
      lower[policy] += by_price < plan.utility * 0.99;
      by_policy[policy] += plan.utility;
      worst = std::max(worst, plan.utility - by_price);
    }
  }
  EXPECT_GT(worst, 0) << "the published plans were never needed";
  for (size_t policy = 0; policy < lower.size(); ++policy) {
    const std::string name(plan::group_policy_names()[policy]);
    RecordProperty("lower_by_a_percent_than_" + name, lower[policy]);
    RecordProperty("mean_of_" + name, fmt::format("{:.4f}", by_policy[policy] / 400));
  }
  RecordProperty("mean_by_price", fmt::format("{:.4f}", sum / 400));
  RecordProperty("worst", fmt::format("{:.4f}", worst));
}

// A second's work for the accurate variant every 20 ms; waiting costs nothing, so it is the best,
// and it starts at once rather than in a larger batch of those to come.
TEST(Lookahead, WhereTimeCostsNothingTheWorkerDoesNotWait) {
  for (const plan::Penalty penalty : {plan::Penalty{plan::PenaltyShape::kNone},
                                      plan::Penalty{plan::PenaltyShape::kConstant, 0.3}}) {
    LookaheadHand h;
    h.worker();
    h.service(penalty);
    h.variant(0.7, 1, 1);
    h.variant(0.9, 1, 30);
    for (int i = 0; i < 3; ++i) h.request(100);
    for (const double rate_rps : {10.0, 100.0, 1000.0}) {
      h.problem.expected = {{rate_rps, Duration::millis(100), 3}};
      EXPECT_EQ(h.prices(), "w0/v1[r0 r1 r2] 0-33") << rate_rps;
    }
  }
}

class AnyLookahead : public testing::TestWithParam<bool> {};

TEST_P(AnyLookahead, KeepsWhatASchedulePromisesAndIsTheSameTwice) {
  Random random(11);
  VariantsLookahead kept;
  for (int i = 0; i < 1500; ++i) {
    plan::GroupProblem p = plan::random_group_problem(random);
    if (random.below(4) == 0) p.data_aware = random.below(2) == 0;
    if (random.below(4) == 0) p.short_circuit = random.below(2) == 0;
    if (GetParam()) p.expected.resize(p.services.size());
    const plan::GroupSchedule& s = kept.plan(p);
    VariantsLookahead fresh;
    const plan::GroupSchedule& again = fresh.plan(p);
    ASSERT_EQ(s.feasible, again.feasible);
    ASSERT_EQ(text(p, s), text(p, again));
    ASSERT_EQ(s.utility, again.utility);
    if (s.feasible) check_group_schedule(p, s);
    ASSERT_FALSE(HasFailure()) << "problem " << i << ": " << text(p, s);
  }
}

INSTANTIATE_TEST_SUITE_P(WhereSomethingIsExpectedOrNot, AnyLookahead, testing::Bool());

// What is expected fills worker time in the plan but never shows up in it.
TEST(Lookahead, ExpectedArrivalsAreNotServed) {
  Random random(13);
  VariantsLookahead lookahead;
  for (int i = 0; i < 500; ++i) {
    plan::GroupProblem p = plan::random_group_problem(random);
    for (size_t a = 0; a < p.services.size(); ++a) {
      p.expected.push_back({200 * random.uniform(), Duration::millis(30)});
    }
    const plan::GroupSchedule& s = lookahead.plan(p);
    if (!s.feasible) continue;
    std::vector<int> seen(p.requests.size());
    for (const uint32_t r : s.requests) ++seen.at(r);
    for (const uint32_t r : s.short_circuited) ++seen.at(r);
    ASSERT_THAT(seen, testing::Each(1)) << "problem " << i;
  }
}

// `fermata plan group`: the data of r1 says that the cheap variant does; r2's penalty is all
// of it from 40 on. 10 + 1 ms for r0, until 14; 4 more for r1.
TEST(Lookahead, AnswersDocumentsThatAskForIt) {
  auto document = Document::parse(R"({"now_ms": 0, "policy": "fermata",
    "workers": [{"name": "gpu0", "free_at_ms": 3}],
    "applications": [{"name": "fall", "penalty": "step", "prior": [0.5, 0.5],
      "variants": [
        {"name": "s", "latency_ms": {"alpha": 1, "beta": 3}, "recall": [0.9, 0.3],
         "accuracy": 0.6, "max_batch": 8},
        {"name": "m", "latency_ms": {"alpha": 10, "beta": 1}, "recall": [0.9, 0.9],
         "accuracy": 0.9, "max_batch": 8}]}],
    "requests": [
      {"id": "r0", "application": "fall", "arrival_ms": -1, "deadline_ms": 15, "evidence": [0, 9]},
      {"id": "r1", "application": "fall", "arrival_ms": -1, "deadline_ms": 20, "evidence": [9, 0]}]})");
  ASSERT_TRUE(document.ok());
  const auto problem = document->read(plan::read_group_problem);
  ASSERT_TRUE(problem.ok()) << problem.status();
  AnyGroupPlanner planner;
  const plan::GroupSchedule& schedule = planner.plan(*problem);
  const std::string written = write_json(write_group_schedule(*problem, schedule));
  EXPECT_EQ(text(*problem, schedule), "gpu0/v1[r0] 3-14, gpu0/v0[r1] 14-18") << written;
  // 0.95 * 0.9 + 0.05 * 0.3 = 0.87 for r1.
  EXPECT_NEAR(schedule.utility, (0.9 + 0.87) / 2, 1e-12);
  EXPECT_EQ(plan::to_document(*problem)["policy"], "fermata");
}

}  // namespace
}  // namespace fermata::policy
