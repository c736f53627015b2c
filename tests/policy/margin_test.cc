#include <gtest/gtest.h>

#include "policy/batch/rule_batcher.h"

namespace fermata::policy {
namespace {

Time at_ms(double ms) { return Time() + Duration::from_millis(ms); }

// ℓ(b) = b + 5 ms, 30 ms to the deadline, a request each millisecond.
class Margin : public testing::Test {
 protected:
  Margin() {
    KeyInfo info;
    info.latency = *LatencyTable::make(LinearLatency{1, 5}, 64);
    info.slo = Duration::millis(30);
    batcher_ =
        std::make_unique<RuleBatcher>(*policy_rules("fermata"), KeyId(0), info, DelayBound());
    for (int ms = 0; ms < 100; ++ms) {
      arrive(ms);
      if (ms % 5 == 4) serve(ms);
    }
  }

  void arrive(double ms) {
    ++jobs_;
    batcher_->nominated({JobId(jobs_), KeyId(0), at_ms(ms), at_ms(ms + 30)}, at_ms(ms));
    batcher_->tick(at_ms(ms), decisions_);
  }
  void serve(double ms, Grant grant = {}) {
    grant.key = KeyId(0);
    grant.worker = WorkerId(0);
    grant.free_at = at_ms(ms);
    grant.unbatched = 6;  // workers would be needed, were each request alone
    grant.epoch = batcher_->offer().epoch;
    batcher_->granted(grant, at_ms(ms), decisions_);
  }

  uint64_t jobs_ = 0;
  Decisions decisions_;
  std::unique_ptr<Batcher> batcher_;
};

TEST(Fermata, ImpossibleDeadlinesSayNothingOfThoseToCome) {
  KeyInfo info;
  info.latency = *LatencyTable::make(LinearLatency{1, 5}, 64);
  info.slo = Duration::infinite();
  const auto batcher =
      std::make_unique<RuleBatcher>(*policy_rules("fermata"), KeyId(0), info, DelayBound());
  Decisions decisions;
  const auto come = [&](double ms, double budget_ms) {
    const Time now = at_ms(ms);
    const JobId job(static_cast<uint64_t>(10 * ms) + 1);
    batcher->nominated({job, KeyId(0), now, now + Duration::from_millis(budget_ms)}, now);
    batcher->tick(now, decisions);
  };
  for (int ms = 0; ms < 1000; ++ms) come(ms, 1);
  EXPECT_TRUE(batcher->offer().outlook.slack.is_infinite());
  EXPECT_EQ(batcher->offer().outlook.load, 0);
  come(1000, 30);
  EXPECT_EQ(batcher->offer().outlook.slack, Duration::millis(30 - 6));
  for (int ms = 1001; ms < 2000; ++ms) come(ms, 1);
  EXPECT_EQ(batcher->offer().outlook.slack, Duration::millis(30 - 6));
}

TEST_F(Margin, IsWhatABurstKeepsWaiting) {
  Grant grant;
  grant.burst = Duration::millis(12);
  serve(100, grant);
  arrive(101);
  EXPECT_EQ(batcher_->offer().start_at, at_ms(101 + 30 - 7 - 12));
}

TEST_F(Margin, IsLessForABurstWhereThePoolNeedsItsLargestBatches) {
  Grant grant;
  grant.burst = Duration::seconds(12);
  grant.load = 1;
  serve(100, grant);
  arrive(101);
  EXPECT_GT(batcher_->offer().start_at, at_ms(101 + 30 - 7 - 6));
}

// The request can wait for 23 ms; others begin whenever they can for half of the workers' time.
TEST_F(Margin, IsTheShareOfThoseWhoBeginAtAnyTime) {
  Grant grant;
  grant.at_any_time = 0.5;
  serve(100, grant);
  arrive(101);
  EXPECT_EQ(batcher_->offer().start_at, at_ms(101 + 23 - 11.5));
}

// What has no deadline comes in no burst that anybody has to survive.
TEST_F(Margin, BestEffortWorkIsNoBurst) {
  const Outlook before = batcher_->offer().outlook;
  for (int i = 0; i < 5000; ++i) {
    batcher_->nominated({JobId(10'000 + i), KeyId(0), at_ms(100), Time::infinite()}, at_ms(100));
  }
  batcher_->tick(at_ms(100), decisions_);
  for (int ms = 101; ms < 300; ++ms) arrive(ms);
  EXPECT_LT(batcher_->offer().outlook.variation, 1);
  EXPECT_NEAR(batcher_->offer().outlook.rate, before.rate, 0.1 * before.rate);
}

TEST_F(Margin, NeverReachesBackBeforeTheRequestCame) {
  Grant grant;
  grant.burst = Duration::millis(200);
  serve(100, grant);
  arrive(101);
  EXPECT_EQ(batcher_->offer().start_at, at_ms(101));
}

}  // namespace
}  // namespace fermata::policy
