// Which workers batches of a key may not run on, since what they need is out of reach there.
#include <gtest/gtest.h>

#include <optional>

#include "policy/scheduler.h"

namespace fermata::policy {
namespace {

Time reach_ms(int64_t ms) { return Time() + Duration::millis(ms); }

// Three workers, and two keys of one model that takes 10 ms.
struct ReachPool {
  ReachPool() {
    const auto table = *LatencyTable::make(LinearLatency{1, 9}, 4);
    for (int i = 0; i < 3; ++i) workers.push_back(scheduler->add_worker(reach_ms(0), decisions));
    for (int i = 0; i < 2; ++i) {
      keys.push_back(scheduler->add_key({.name = "model", .latency = LatencyByType({table})}));
    }
  }
  void reaches(size_t key, size_t worker, bool is_so, int64_t ms) {
    scheduler->planned(Reaches{keys[key], workers[worker], is_so}, reach_ms(ms), decisions);
  }
  // One request at that moment, with so much time or without a deadline.
  void request(size_t key, int64_t ms, std::optional<int64_t> budget = 100) {
    scheduler->nominate({.job = JobId(++last),
                         .key = keys[key],
                         .arrival = reach_ms(ms),
                         .deadline = budget ? reach_ms(ms + *budget) : Time::infinite(),
                         .start_from = reach_ms(ms)},
                        reach_ms(ms), decisions);
    scheduler->tick(reach_ms(ms), decisions);
  }
  void ended(size_t worker, int64_t ms) {
    scheduler->ended(BatchEnd(workers[worker]), reach_ms(ms), decisions);
  }
  // The workers of what has been bound since the last time, in order.
  std::vector<uint32_t> bound() {
    std::vector<uint32_t> all;
    for (const Batch& batch : decisions.bound) all.push_back(batch.worker.value());
    decisions.clear();
    return all;
  }
  std::unique_ptr<Scheduler> scheduler = *make_scheduler("fermata");
  Decisions decisions;
  std::vector<WorkerId> workers;
  std::vector<KeyId> keys;
  uint64_t last = 0;
};
using Bound = std::vector<uint32_t>;

TEST(Reaches, BatchesRunOnTheNextThatMayRunThem) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.request(1, 1);
  EXPECT_EQ(pool.bound(), Bound({1}));
  pool.request(0, 1);  // others are as before
  EXPECT_EQ(pool.bound(), Bound({0}));
}

TEST(Reaches, TheyWaitWhereOnlyOthersAreFreeAndNobodyWaitsBehindThem) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.reaches(1, 1, false, 0);
  pool.request(1, 1);
  EXPECT_EQ(pool.bound(), Bound({2}));
  pool.request(1, 2);
  EXPECT_EQ(pool.bound(), Bound());
  pool.request(0, 3);
  EXPECT_EQ(pool.bound(), Bound({0}));
  pool.ended(2, 11);
  EXPECT_EQ(pool.bound(), Bound({2}));
}

TEST(Reaches, WithoutADeadlineToo) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.request(1, 1, std::nullopt);
  EXPECT_EQ(pool.bound(), Bound({1}));
}

TEST(Reaches, WhereTheWayIsThereAgainItRunsAtOnce) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.reaches(1, 1, false, 0);
  pool.request(1, 1);
  pool.request(1, 2);
  EXPECT_EQ(pool.bound(), Bound({2}));
  pool.reaches(1, 1, true, 3);
  EXPECT_EQ(pool.bound(), Bound({1}));
}

TEST(Reaches, WhereNoneThatServesMayRunThemAnyDoes) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.reaches(1, 1, false, 0);
  pool.scheduler->planned(Serving{pool.workers[2], false}, reach_ms(0), pool.decisions);
  pool.request(1, 1);
  EXPECT_EQ(pool.bound(), Bound({0}));
}

TEST(Reaches, AKeyThatIsGoneLeavesNothingBehind) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.scheduler->remove_key(pool.keys[1]);
  const auto table = *LatencyTable::make(LinearLatency{1, 9}, 4);
  pool.keys[1] = pool.scheduler->add_key({.name = "another", .latency = LatencyByType({table})});
  pool.request(1, 1);
  EXPECT_EQ(pool.bound(), Bound({0}));
}

}  // namespace
}  // namespace fermata::policy
