#include <gtest/gtest.h>

#include "by_hand.h"
#include "policy/batch/rule_batcher.h"

namespace fermata::policy {
namespace {

// The default's batcher of ℓ(b) = b + 5 ms, which lately ran batches of 30.
class Survivors : public testing::Test {
 protected:
  Survivors() {
    KeyInfo info;
    info.latency = linear(1, 5);
    info.slo = Duration::millis(100);
    batcher_ =
        std::make_unique<RuleBatcher>(*policy_rules("fermata"), KeyId(0), info, DelayBound());
    for (int ms = 0; ms < 3000; ++ms) {
      arrive(ms, 100);
      if (ms % 30 == 29) serve(ms, {});
    }
    decisions_.clear();
  }
  void arrive(double now_ms, double timeout_ms) {
    const Time now = at_ms(now_ms);
    batcher_->nominated({JobId(++jobs_), KeyId(0), now, at_ms(now_ms + timeout_ms)}, now);
    batcher_->tick(now, decisions_);
  }
  void serve(double now_ms, const Harm& harm) {
    Grant grant{KeyId(0), WorkerId(0)};
    grant.free_at = at_ms(now_ms);
    grant.epoch = batcher_->offer().epoch;
    grant.harm = harm;
    batcher_->granted(grant, at_ms(now_ms), decisions_);
  }
  // One with little time left comes among 30 with much.
  void one_in_a_hurry() {
    for (int i = 0; i < 30; ++i) arrive(3000, 100);
    arrive(3000, 7);
  }

  uint64_t jobs_ = 0;
  Decisions decisions_;
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(Survivors, OneInAHurryGivesWayToALargeBatch) {
  one_in_a_hurry();
  EXPECT_EQ(decisions_.dropped.size(), 1u);
}

// Up to 20 ms of a run of 40 ms keep nobody waiting, from then on 10 requests a millisecond.
TEST_F(Survivors, ABatchOnTheLastFreeWorkerEndsBeforeItCostsOthersMore) {
  for (int i = 0; i < 35; ++i) arrive(3000, 100);
  Harm harm{.run = Duration::millis(40)};
  for (size_t i = 4; i < kHarmSteps; ++i) harm.late[i] = 50.0F * static_cast<float>(i - 3);
  serve(3000, harm);
  ASSERT_EQ(decisions_.bound.size(), 1u);
  EXPECT_EQ(decisions_.bound[0].items, 15u);  // ℓ(15) = 20 ms
}

}  // namespace
}  // namespace fermata::policy
