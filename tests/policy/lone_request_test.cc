#include <gtest/gtest.h>

#include "policy/scheduler.h"

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
    (*scheduler)->freed(worker, after_ms(now + 1), decisions);
  }
}

}  // namespace
}  // namespace fermata::policy
