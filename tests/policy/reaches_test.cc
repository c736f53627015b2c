// Which workers batches of a key may not run on, since what they need is out of reach there.
#include "hand.h"

namespace fermata::policy {
namespace {

// Three workers, and two keys of one model that takes 10 ms.
struct ReachPool : Hand {
  ReachPool() : Hand("fermata") {
    for (int i = 0; i < 3; ++i) workers.push_back(worker());
    for (int i = 0; i < 2; ++i) keys.push_back(add());
  }
  KeyId add() { return scheduler->add_key({.name = "model", .latency = linear(1, 9, 4)}); }
  void reaches(size_t key, size_t worker, bool is_so, double ms) {
    scheduler->planned(Reaches{keys[key], workers[worker], is_so}, at_ms(ms), out);
  }
  // One request at that moment.
  void request(size_t key, double ms) {
    arrive_planned(task(keys[key], ms, 100));
    tick(ms);
  }
  void ended(size_t worker, double ms) { freed(workers[worker], ms); }
  // The workers of what has been bound since the last time, in order.
  std::vector<uint32_t> bound() {
    std::vector<uint32_t> all;
    for (const Batch& batch : out.bound) all.push_back(batch.worker.value());
    out.clear();
    return all;
  }
  std::vector<WorkerId> workers;
  std::vector<KeyId> keys;
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
  Task task = pool.task(pool.keys[1], 1, 0);
  task.deadline = Time::infinite();
  pool.arrive_planned(task);
  pool.tick(1);
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
  pool.scheduler->planned(Serving{pool.workers[2], false}, at_ms(0), pool.out);
  pool.request(1, 1);
  EXPECT_EQ(pool.bound(), Bound({0}));
}

TEST(Reaches, AKeyThatIsGoneLeavesNothingBehind) {
  ReachPool pool;
  pool.reaches(1, 0, false, 0);
  pool.scheduler->remove_key(pool.keys[1]);
  pool.keys[1] = pool.add();
  pool.request(1, 1);
  EXPECT_EQ(pool.bound(), Bound({0}));
}

}  // namespace
}  // namespace fermata::policy
