#include <deque>

#include "hand.h"

namespace fermata::policy {
namespace {

// One model, ℓ(b) = b + 5 ms, 30 ms to the deadline, six workers: half a millisecond a step.
class Pool {
 public:
  Pool() {
    for (int i = 0; i < 6; ++i) hand_.worker();
  }
  // At each step as many single requests as `arrivals` says; the mean time in ms from a batch's
  // first arrival to its start, over the second half of the steps.
  double mean_hold(int steps, int (*arrivals)(int step)) {
    double hold = 0;
    int batches = 0;
    for (int i = 0; i < steps; ++i, now_ += 0.5) {
      end_batches();
      hand_.tick(now_);
      for (int n = arrivals(i); n > 0; --n) hand_.arrive(key_, now_, 30);
      for (const Batch& batch : hand_.out.bound) {
        running_.push_back(batch);
        if (i < steps / 2) continue;
        hold += (batch.start - batch.tasks[0].arrival).millis();
        ++batches;
      }
      hand_.out.clear();
    }
    return hold / batches;
  }

 private:
  void end_batches() {
    std::deque<Batch> still;
    for (const Batch& batch : running_) {
      if (batch.finish > at_ms(now_)) {
        still.push_back(batch);
      } else {
        hand_.freed(batch.worker, now_);
      }
    }
    running_.swap(still);
  }

  Hand hand_{"fermata"};
  KeyId key_ = hand_.key(1, 5, 30);
  double now_ = 0;
  std::deque<Batch> running_;
};

// Two a millisecond: what a batch waits for is sure to come.
int steady(int) { return 1; }

// Two each 20 ms, and a hundred each 400 ms: λ says that in 3 ms one more will come, but nearly
// always none does.
int bursts(int step) { return step % 800 == 0 ? 100 : step % 40 == 0 ? 2 : 0; }

TEST(Fermata, HoldsABatchWhileArrivalsAreSteady) {
  Pool pool;
  EXPECT_GT(pool.mean_hold(40'000, steady), 5);
}

TEST(Fermata, StartsAtOnceWhenArrivalsComeInBursts) {
  Pool pool;
  EXPECT_LT(pool.mean_hold(40'000, bursts), 1);
}

TEST(Fermata, HoldsAgainAfterBursts) {
  Pool pool;
  pool.mean_hold(40'000, bursts);
  EXPECT_GT(pool.mean_hold(120'000, steady), 5);
}

}  // namespace
}  // namespace fermata::policy
