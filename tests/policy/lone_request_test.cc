#include <deque>
#include <utility>

#include "hand.h"

namespace fermata::policy {
namespace {

Time after_ms(int64_t ms) { return Time() + Duration::millis(ms); }

// An idle worker, 1 ms a batch, 100 ms to the deadline, and a request every 10 s: nobody
// will join, so each starts when it comes, not at its latest start.
TEST(Fermata, ALoneRequestOnAnIdlePoolStartsAtOnce) {
  auto scheduler = make_scheduler("fermata");
  ASSERT_TRUE(scheduler.ok());
  Decisions decisions;
  const KeyId key =
      (*scheduler)
          ->add_key({.name = "tiny", .latency = *LatencyTable::make(LinearLatency{0.1, 0.9}, 8)});
  const WorkerId worker = (*scheduler)->add_worker(after_ms(0), decisions);
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t now = 10'000 * i;
    (*scheduler)
        ->nominate({.job = JobId(static_cast<uint64_t>(i)),
                    .key = key,
                    .arrival = after_ms(now),
                    .deadline = after_ms(now + 100)},
                   after_ms(now), decisions);
    ASSERT_EQ(decisions.bound.size(), 1u) << "request " << i;
    EXPECT_EQ(decisions.bound[0].start, after_ms(now));
    decisions.clear();
    (*scheduler)->ended(worker, after_ms(now + 1), decisions);
  }
}

// One worker, ℓ(b) = b + 5 ms, 200 ms to the deadline, and so many clients that send again 1 ms
// after they are answered: how many are answered a second, once that is known.
double answered_by(size_t clients) {
  Hand hand("fermata");
  const KeyId key = hand.key(1, 5, 200);
  hand.worker();
  constexpr double kStep = 0.5, kEnd = 6000;
  std::deque<Batch> running;
  std::deque<std::pair<double, size_t>> sends = {{0, clients}};
  size_t answered = 0;
  for (double now = 0; now < kEnd; now += kStep) {
    if (!running.empty() && (running[0].finish - Time()).millis() <= now) {
      hand.freed(running[0].worker, now);
      if (now >= kEnd / 2) answered += running[0].tasks.size();
      sends.push_back({now + 1, running[0].tasks.size()});
      running.pop_front();
    }
    hand.tick(now);
    for (; !sends.empty() && sends[0].first <= now; sends.pop_front()) {
      for (size_t n = 0; n < sends[0].second; ++n) hand.arrive(key, now, 200);
    }
    for (const Batch& batch : hand.out.bound) running.push_back(batch);
    hand.out.clear();
  }
  return static_cast<double>(answered) / (kEnd / 2) * 1000;
}

// Clients that wait for their answers bring nobody who could join: the batch of all starts at once.
TEST(Fermata, ClientsThatWaitForTheirAnswersAreNotKeptWaiting) {
  EXPECT_GT(answered_by(1), 0.8 * 1000 / (6 + 1));
  EXPECT_GT(answered_by(2), 0.9 * 1000 / 6);  // in turn, or better
  EXPECT_GT(answered_by(8), 0.8 * 8 * 1000 / (13 + 1));
}

// Nor is one who comes seldom and has much time: the pool would bear every request alone.
TEST(Fermata, AnIdlePoolKeepsNobodyWaiting) {
  Hand hand("fermata");
  const KeyId key = hand.key(0.05, 0.15, 200);
  const WorkerId worker = hand.worker();
  for (int i = 0; i < 50; ++i) {
    const double now = 300.0 * i;
    hand.arrive(key, now, 4000);
    ASSERT_EQ(hand.out.bound.size(), 1u) << "request " << i;
    EXPECT_EQ(hand.out.bound[0].start, at_ms(now));
    hand.out.clear();
    hand.freed(worker, now + 0.2);
  }
}

// Its deadline is far, and a run takes long: it must not wait for mates that cannot come.
TEST(Fermata, AClientWithAFarDeadlineWaitsForMatesAFewRunsAtMost) {
  for (const double run_ms : {300.0, 0.2}) {
    Hand hand("fermata");
    const KeyId key = hand.key(0.1 * run_ms, 0.9 * run_ms, 1e7);
    const WorkerId worker = hand.worker();
    double now = 0;
    for (int i = 0; i < 200; ++i) {
      const double sent = now;
      hand.arrive(key, now, 1e7);
      while (hand.out.bound.empty()) hand.tick(now = hand.wake_ms());
      EXPECT_LE(now - sent, 4 * run_ms + 0.01);
      now = (hand.batch().finish - Time()).millis();
      hand.freed(worker, now);
    }
    EXPECT_LT(now, 300 * run_ms);  // and hardly any waits, once it is known
  }
}

}  // namespace
}  // namespace fermata::policy
