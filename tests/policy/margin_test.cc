#include <gtest/gtest.h>

#include "policy/batch/fermata.h"

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
    batcher_ = make_fermata(KeyId(0), info, {});
    for (int ms = 0; ms < 100; ++ms) {
      arrive(ms);
      if (ms % 5 == 4) serve(ms, Duration());
    }
  }

  void arrive(double ms) {
    ++jobs_;
    batcher_->nominated({JobId(jobs_), KeyId(0), at_ms(ms), at_ms(ms + 30)}, at_ms(ms), decisions_);
  }
  // Serves what waits, on a worker of a pool whose offers lately waited so long.
  void serve(double ms, Duration wait) {
    Grant grant{KeyId(0), WorkerId(0)};
    grant.free_at = at_ms(ms);
    grant.wait = wait;
    grant.singly = 6;  // workers would be needed, were each request alone
    grant.epoch = batcher_->offer().epoch;
    batcher_->granted(grant, at_ms(ms), decisions_);
  }

  uint64_t jobs_ = 0;
  Decisions decisions_;
  std::unique_ptr<Batcher> batcher_;
};

TEST_F(Margin, IsThePoolsWait) {
  serve(100, Duration::millis(10));
  arrive(101);
  EXPECT_EQ(batcher_->offer().start_at, at_ms(101 + 30 - 7 - 10));  // ℓ(2) = 7
}

// A pool's wait is counted from start_at. Were start_at earlier than the request, then the wait
// would be as long as the margin even on an idle pool, and the margin never shrink again.
TEST_F(Margin, NeverReachesBackBeforeTheRequestCame) {
  serve(100, Duration::millis(200));
  arrive(101);
  EXPECT_EQ(batcher_->offer().start_at, at_ms(101));
}

}  // namespace
}  // namespace fermata::policy
