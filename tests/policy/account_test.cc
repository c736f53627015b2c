#include "policy/pool/account.h"

#include <gtest/gtest.h>

#include <array>

#include "by_hand.h"
#include "hand.h"
#include "policy/pool/pool_ranker.h"
#include "policy/pool/service_demand.h"

namespace fermata::policy {
namespace {

const Rules& kRules = *policy_rules("fermata");

// Of key 0 is asked; key 1 has what the test says.
class Account : public testing::Test {
 protected:
  Account() {
    for (uint32_t k = 0; k < 2; ++k) view_.add_key(KeyId(k));
    view_.add_worker(0);
  }
  void expect(double rate, double slack_ms, double seen_ms = 0) {
    other_.outlook.rate = rate;
    other_.outlook.slack = Duration::from_millis(slack_ms);
    other_.outlook.seen = at_ms(seen_ms);
    view_.set_offer(other_);
  }
  void wait(uint32_t items, double first_ms, double last_ms) {
    other_.items = other_.outlook.waiting = items;
    other_.outlook.first_by = at_ms(first_ms);
    other_.outlook.last_by = at_ms(last_ms);
    view_.set_offer(other_);
  }
  double late(double from_ms, double until_ms, uint32_t left = 0) const {
    return made_late(view_, KeyId(0), 0, at_ms(from_ms), at_ms(until_ms), left);
  }

  PoolView view_;
  Offer other_{KeyId(1)};
};

TEST_F(Account, NobodyIsLateWhereNothingIsExpected) { EXPECT_EQ(late(0, 1000), 0); }

TEST_F(Account, WhoComesAndCannotWaitSoLongIsLate) {
  expect(100, 20);
  EXPECT_EQ(late(0, 20), 0);
  EXPECT_DOUBLE_EQ(late(0, 50), 100 * 0.030);  // those that come in the first 30 ms
}

TEST_F(Account, WhoWaitsAndMustStartBeforeIsLate) {
  expect(0, 20);
  wait(5, 10, 50);
  EXPECT_EQ(late(0, 10), 0);
  EXPECT_DOUBLE_EQ(late(0, 30), 3);  // at 10, 20 and 30
  EXPECT_DOUBLE_EQ(late(0, 100), 5);
  EXPECT_EQ(late(60, 100), 0);  // they are lost whatever is done
}

TEST_F(Account, WhatIsRemovedIsNotExpected) {
  expect(100, 20);
  view_.add_model(KeyId(1), {.name = "m", .latency = *LatencyTable::make(LinearLatency{1, 4}, 4)});
  EXPECT_GT(late(0, 50), 0);
  view_.remove_model(KeyId(1));
  EXPECT_EQ(late(0, 50), 0);
}

// While they come; half of it is what one worker more would save.
TEST_F(Account, TimeIsWorthAPartOfWhatOthersLose) {
  expect(100, 20);
  EXPECT_EQ(price(view_, KeyId(0), at_ms(0)), 0);
  other_.outlook.lost = 8;
  view_.set_offer(other_);
  EXPECT_DOUBLE_EQ(price(view_, KeyId(0), at_ms(10)), 4);
  // 10 s without any: three gaps' worth.
  EXPECT_NEAR(price(view_, KeyId(0), at_ms(10'000)), 4 * 0.3 / 100, 1e-12);
  EXPECT_EQ(price(view_, KeyId(1), at_ms(10)), 0);
}

TEST_F(Account, BestEffortWorkMayRunAsLongOnManyWorkersAsOnOneAtTheSameLoad) {
  other_.outlook.load = 0.5;
  expect(100, 20);
  const Time alone = free_again_by(view_, KeyId(0), WorkerId(0), at_ms(0));
  EXPECT_EQ(alone, at_ms(8));  // 20 / (1 + 3 * 0.5)
  for (int w = 1; w < 8; ++w) view_.add_worker(0);
  other_.outlook.load = 4;
  expect(100, 20);
  EXPECT_EQ(free_again_by(view_, KeyId(0), WorkerId(0), at_ms(0)), alone);
}

// A thousand a second keep one of eight workers busy; six that run for long are one too many.
TEST_F(Account, BestEffortWorkMayRunForLongWhereTheOthersHardlyEverWait) {
  for (int w = 1; w < 8; ++w) view_.add_worker(0);
  other_.outlook.load = 1;
  expect(1000, 20);
  const auto until = [&] { return free_again_by(view_, KeyId(0), WorkerId(0), at_ms(0)); };
  for (uint32_t w = 1; w < 7; ++w) {
    EXPECT_EQ(until().is_infinite(), w < 6) << w;
    view_.bound(WorkerId(w), at_ms(500));
  }
  EXPECT_LT(until(), at_ms(20));
}

TEST_F(Account, ItsOwnRequestsAreNotOthers) {
  expect(100, 20);
  EXPECT_EQ(made_late(view_, KeyId(1), 0, at_ms(0), at_ms(500), 0), 0);
}

// 100 a second that run for 10 ms keep one worker busy: one that is left is so half of the time,
// two are a fifth.
TEST_F(Account, WorkersThatAreLeftServeSomeOfThem) {
  other_.outlook.alone = Duration::millis(10);
  expect(100, 20);
  EXPECT_DOUBLE_EQ(late(0, 50, 1), 3.0 / 2);
  EXPECT_DOUBLE_EQ(late(0, 50, 2), 3.0 / 5);
}

TEST_F(Account, TheLoadIsWhatTheWorkersAreWantedFor) {
  other_.outlook.load = 0.5;
  expect(100, 20);
  EXPECT_DOUBLE_EQ(load(view_, at_ms(0), kRules).batched, 0.5);
  view_.add_worker(0);
  EXPECT_DOUBLE_EQ(load(view_, at_ms(0), kRules).batched, 0.25);
  EXPECT_NEAR(load(view_, at_ms(10'000), kRules).batched, 0.25 * 0.3 / 100,
              1e-12);  // it has gone silent
}

// 100 a second in half of a worker's time: all_busy is 0.240, and what waits is above x with
// probability 0.240 exp(-2 * 0.5 x / 0.0025).
TEST_F(Account, ABurstIsWhatOneInAThousandFindsWaiting) {
  const auto burst_ms = [&](double load, double rate, double variation) {
    other_.outlook.load = load;
    other_.outlook.alone = Duration::from_seconds(load / rate);
    other_.outlook.variation = variation;
    expect(rate, 20);
    return policy::load(view_, at_ms(0), kRules).burst(Duration::millis(20), kRules).millis();
  };
  EXPECT_NEAR(burst_ms(0.5, 100, 1), 13.7, 0.1);
  EXPECT_NEAR(burst_ms(0.5, 100, 4), 58.9, 0.1);
  EXPECT_NEAR(burst_ms(0.5, 100, 5), 74.1, 0.1);
  EXPECT_NEAR(burst_ms(0.5, 100, 1e6), 74.1, 0.1);  // 25 ms to the deadline are five such items
  EXPECT_GT(burst_ms(1.5, 300, 1), 3.6e6);          // for ever
  EXPECT_EQ(burst_ms(0.5, 100, 0), 0);              // as regular as a clock
  for (int w = 1; w < 8; ++w) view_.add_worker(0);
  EXPECT_NEAR(burst_ms(4, 800, 1), 0.98, 0.01);  // eight at the same load each
  EXPECT_EQ(burst_ms(1, 200, 1), 0);             // they are never all busy
}

// With more work in items alone it is longer, up to what keeps the worker busy for 0.8 of the time:
// all_busy is 0.412 then, and what waits above x with probability 0.412 exp(-2 * 0.2 x / 0.0064).
TEST_F(Account, ABurstIsServedAloneAsFarAsTheWorkersBearThat) {
  const auto burst_ms = [&](double alone_ms) {
    other_.outlook.load = 0.5;
    other_.outlook.alone = Duration::from_millis(alone_ms);
    expect(100, 20);
    return load(view_, at_ms(0), kRules).burst(Duration::millis(20), kRules).millis();
  };
  double before = burst_ms(5);
  EXPECT_NEAR(before, 13.7, 0.1);
  for (double alone_ms = 5.5; alone_ms <= 8; alone_ms += 0.5) {
    EXPECT_GT(burst_ms(alone_ms), before);
    before = burst_ms(alone_ms);
  }
  for (const double alone_ms : {8.0, 8.01, 10.0, 12.0, 100.0}) {
    EXPECT_NEAR(burst_ms(alone_ms), 96.3, 0.1);
  }
}

// Half a request a second of a model that runs for two seconds: those who can wait for seconds
// find it in their way, those who can wait for 44 ms hardly come earlier for its sake.
TEST_F(Account, RareLongRunsDoNotWidenTheMarginsOfThoseWhoCannotWaitForThem) {
  for (int w = 1; w < 8; ++w) view_.add_worker(0);
  other_.outlook.load = 2.2;
  other_.outlook.alone = Duration::millis(6);
  expect(1000, 44);
  const auto burst_ms = [&](int64_t slack_ms) {
    return load(view_, at_ms(0), kRules).burst(Duration::millis(slack_ms), kRules).millis();
  };
  const double alone = burst_ms(44);
  Offer rare{KeyId(0)};
  rare.outlook.rate = 0.5;
  rare.outlook.load = 1;
  rare.outlook.alone = Duration::seconds(2);
  rare.outlook.slack = Duration::seconds(8);
  view_.set_offer(rare);
  EXPECT_LT(burst_ms(44), alone + 44);
  EXPECT_GT(burst_ms(8000), 5 * burst_ms(44));
}

// Cameras: as regular as a clock, and yet more than the other worker bears.
TEST_F(Account, RegularArrivalsThatOthersDoNotBearKeepBestEffortWorkShort) {
  view_.add_worker(0);
  other_.outlook.variation = 0;
  other_.outlook.load = 1.25;
  other_.outlook.alone = Duration::millis(25);
  expect(50, 35);
  EXPECT_FALSE(free_again_by(view_, KeyId(0), WorkerId(0), at_ms(0)).is_infinite());
  EXPECT_FALSE(others_bear(view_, KeyId(0), WorkerId(0), at_ms(0)));
  other_.outlook.load = 0.5;
  expect(50, 35);
  EXPECT_TRUE(others_bear(view_, KeyId(0), WorkerId(0), at_ms(0)));
}

// Each is a type of its own where workers load different variants ahead, and still as fast.
TEST_F(Account, TypesThatAreAsFastStandInForEachOther) {
  view_.add_worker(1);
  const LatencyByType::Table fast = *LatencyTable::make(LinearLatency{1, 4}, 4);
  const LatencyByType::Table own = *LatencyTable::make(LinearLatency{1, 4}, 4);
  view_.add_model(KeyId(0), {.name = "m", .latency = LatencyByType({fast, own})});
  other_.outlook.load = 0.1;
  expect(100, 20);
  EXPECT_TRUE(others_bear(view_, KeyId(0), WorkerId(0), at_ms(0)));
  EXPECT_TRUE(needed_by(view_, KeyId(0), WorkerId(0), at_ms(0)).is_infinite());
  const LatencyByType::Table slow = *LatencyTable::make(LinearLatency{10, 40}, 4);
  view_.add_model(KeyId(1), {.name = "n", .latency = LatencyByType({fast, slow})});
  EXPECT_FALSE(others_bear(view_, KeyId(0), WorkerId(0), at_ms(0)));
  EXPECT_EQ(needed_by(view_, KeyId(0), WorkerId(0), at_ms(0)), at_ms(20));
}

TEST_F(Account, WhatTheWorkerMayNotRunLosesNothing) {
  other_.types = 1u << 3;
  expect(100, 20);
  EXPECT_EQ(late(0, 500), 0);
}

// No arrival for 10 s at 100 a second: not more than 3 in 10 s are believed in.
TEST_F(Account, AKeyThatHasGoneSilentIsHardlyExpected) {
  expect(100, 20, 0);
  EXPECT_NEAR(late(10'000, 10'120), 0.3 * 0.1, 1e-9);
}

// Two workers; the first runs until 40 ms. A long batch that is due meets requests of another key
// that come 100 times a second and can wait for 10 ms.
class LastFreeWorker : public testing::Test {
 protected:
  LastFreeWorker() {
    for (uint32_t k = 0; k < 3; ++k) ranker_.add_key(KeyId(k));
    for (uint32_t w = 0; w < 2; ++w)
      ranker_.add_worker(WorkerId(w), 0, kUnlimitedMemory, at_ms(0), grants_);
    offer(KeyId(2), 40, 100);
    ranker_.answered({WorkerId(0), true, at_ms(40)}, at_ms(0), grants_);
    grants_.clear();
    Offer nothing{KeyId(1)};
    nothing.outlook = {.rate = 100, .seen = at_ms(0), .slack = Duration::millis(10)};
    ranker_.offered(nothing, at_ms(0), grants_);
  }
  void offer(KeyId key, double run_ms, double latest_ms) {
    Offer offer{key};
    offer.items = 1;
    offer.start_at = at_ms(0);
    offer.urgency = at_ms(latest_ms);
    offer.run = Duration::from_millis(run_ms);
    ranker_.offered(offer, at_ms(0), grants_);
  }

  PoolRanker ranker_{kRules};
  std::vector<Grant> grants_;
};

TEST_F(LastFreeWorker, IsLeftToThoseWhoCannotWait) {
  offer(KeyId(0), 100, 500);
  EXPECT_TRUE(grants_.empty());
  EXPECT_EQ(ranker_.next_wake(), at_ms(40));  // then the next worker is free
  ranker_.freed(WorkerId(0), at_ms(30), grants_);
  ASSERT_EQ(grants_.size(), 1u);
  EXPECT_EQ(grants_[0].harm.late.back(), 0);
}

TEST_F(LastFreeWorker, IsTakenAtTheLastMoment) {
  offer(KeyId(0), 100, 25);
  EXPECT_EQ(ranker_.next_wake(), at_ms(25));
  ranker_.tick(at_ms(25), grants_);
  ASSERT_EQ(grants_.size(), 1u);
  EXPECT_EQ(grants_[0].harm.run, Duration::millis(100));
  // The first worker is free 15 ms later; who comes in the first 5 of them is late.
  EXPECT_FLOAT_EQ(grants_[0].harm.late.back(), 0.5);
  EXPECT_EQ(grants_[0].others_slack, Duration::millis(10));
}

TEST_F(LastFreeWorker, IsTakenAtOnceByWhatKeepsNobodyWaiting) {
  offer(KeyId(0), 10, 500);
  EXPECT_EQ(grants_.size(), 1u);
}

TEST_F(LastFreeWorker, IsTakenAtOnceUnderThePublishedPolicies) {
  PoolRanker published;
  published.add_key(KeyId(0));
  published.add_worker(WorkerId(0), 0, kUnlimitedMemory, at_ms(0), grants_);
  Offer offer{KeyId(0)};
  offer.items = 1;
  offer.run = Duration::millis(100);
  published.offered(offer, at_ms(0), grants_);
  EXPECT_EQ(grants_.size(), 1u);
}

// Of one model of this latency, whatever kind of service it is.
enum class Asked { kNobody, kModel, kVariants, kEnsemble };
KeyId service_of(Hand& hand, Asked kind) {
  const KeyId model = hand.key(1, 5, 50);
  if (kind == Asked::kVariants) {
    return hand.scheduler->add_service(
        VariantsInfo{"s", {{model, 0.9, {}}}, {plan::PenaltyShape::kStep}, {0.5, 0.5}, {}});
  }
  if (kind != Asked::kEnsemble) return model;
  return hand.scheduler->add_service(
      EnsembleInfo{.name = "s", .models = {model}, .utility = {{0, 1}}, .share = {1}});
}

// On one worker, where a service of 50 ms and one item a batch is asked ten times a second or not
// at all: how many of 60 best-effort items of 2 ms, that all wait, run together.
uint32_t backlog_batch(Asked asked) {
  Hand hand("fermata");
  const KeyId service = service_of(hand, asked), backlog = hand.key(2, 6, 50);
  const WorkerId worker = hand.worker();
  for (double now = 0; asked != Asked::kNobody && now < 2000; now += 100) {
    hand.arrive(service, now, 50);
    EXPECT_EQ(hand.batch().finish, at_ms(now + 6));
    hand.freed(worker, now + 6);
  }
  for (int i = 0; i < 61; ++i) hand.arrive_best_effort(backlog, 2050);
  EXPECT_EQ(hand.batch().items, 1u);
  hand.freed(worker, 2058);
  const Batch batch = hand.batch();
  EXPECT_LE(batch.finish, at_ms(2058 + (asked == Asked::kNobody ? 1000 : 50 - 6)));
  return batch.items;
}

TEST(Backlog, LeavesTheOnlyWorkerInTimeForThoseWhoHaveADeadlineOfEveryKind) {
  EXPECT_EQ(backlog_batch(Asked::kNobody), 60u);
  EXPECT_GE(backlog_batch(Asked::kModel), 10u);
  EXPECT_GE(backlog_batch(Asked::kVariants), 10u);
  EXPECT_GE(backlog_batch(Asked::kEnsemble), 10u);
}

// A hundred at once, each second, and one each 10 ms: their variance by mean counts by their load.
TEST(ServiceDemand, SeveralServicesAreAsBurstyAsTheWorkThatComes) {
  ServiceDemand bursts, steady;
  for (int i = 0; i < 2000; ++i) {
    steady.count({JobId(1), KeyId(0), at_ms(10 * i), at_ms(10 * i + 200)}, at_ms(10 * i));
    if (i % 100 != 0) continue;
    bursts.count({JobId(1), KeyId(0), at_ms(10 * i), at_ms(10 * i + 200), 100}, at_ms(10 * i));
  }
  const Outlook much = bursts.outlook(Duration(), Duration::millis(6));
  const Outlook little = steady.outlook(Duration(), Duration::millis(2));
  EXPECT_GT(much.variation, 10);
  EXPECT_LT(little.variation, 1);
  const Outlook all = merged(std::array{much, little}, at_ms(20'000));
  EXPECT_NEAR(all.variation, (3 * much.variation + little.variation) / 4, 1);
}

TEST(ServiceDemand, ForgetsServicesThatNobodyAsksAnyMore) {
  ServiceDemand tight, loose;
  const auto come = [](ServiceDemand& to, double now_ms, double slo_ms) {
    to.count({JobId(1), KeyId(0), at_ms(now_ms), at_ms(now_ms + slo_ms)}, at_ms(now_ms));
  };
  for (int i = 0; i < 100; ++i) come(tight, i * 10, 20);
  for (int i = 0; i < 1000; ++i) come(loose, i * 10, 200);
  const auto both = [&](double now_ms) {
    const Duration alone = Duration::millis(5), share = Duration::millis(2);
    const std::array each = {loose.outlook(alone, share), tight.outlook(alone, share)};
    return merged(each, at_ms(now_ms));
  };
  ServiceDemand once, infeasible, nobody;
  come(once, 0, 50);
  EXPECT_TRUE(has_come_lately(once.outlook(Duration(), Duration()), at_ms(900)));
  EXPECT_FALSE(has_come_lately(once.outlook(Duration(), Duration()), at_ms(5000)));
  come(infeasible, 0, 1);
  EXPECT_TRUE(infeasible.outlook(Duration::millis(5), Duration()).slack.is_infinite());
  EXPECT_TRUE(nobody.outlook(Duration(), Duration()).slack.is_infinite());
  EXPECT_EQ(both(10'000).slack, Duration::millis(195));
  EXPECT_NEAR(both(10'000).rate, 100, 1);
  EXPECT_NEAR(both(10'000).load, 0.2, 0.01);
  EXPECT_EQ(both(10'000).variation, loose.outlook(Duration(), Duration()).variation);
  come(tight, 10'010, 20);
  EXPECT_EQ(both(10'010).slack, Duration::millis(15));
}

// A thousand a second that can wait for a second, and one a second that has 10 ms.
TEST_F(Account, FewWhoCannotWaitDoNotSpeakForManyWhoCan) {
  Outlook many{.rate = 1000, .seen = at_ms(0), .slack = Duration::seconds(1)};
  Outlook few{.rate = 1, .seen = at_ms(0), .slack = Duration::millis(10)};
  other_.outlook = merged(std::array{many, few}, at_ms(0));
  view_.set_offer(other_);
  EXPECT_NEAR(late(0, 100), 0.09, 1e-9);
  EXPECT_NEAR(late(0, 1100), 1.09 + 100, 1e-6);
}

}  // namespace
}  // namespace fermata::policy
