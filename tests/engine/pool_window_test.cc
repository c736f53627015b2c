#include "engine/host/pool_window.h"

#include <gtest/gtest.h>

#include <future>

#include "engine/threads/periodic.h"

namespace fermata::engine {
namespace {

Time at_seconds(int64_t s) { return Time() + Duration::seconds(s); }

TEST(PoolWindow, CountsWhatTheWorkersAnswerFor) {
  EngineSnapshot snapshot;
  snapshot.now = at_seconds(5);
  snapshot.services.resize(2);
  // on_time, late, rejected_deadline, rejected_queue, unavailable, invalid, cancelled, failed
  snapshot.services[0].outcomes = {100, 1, 2, 3, 1000, 1000, 1000, 1000};
  snapshot.services[0].lacking = 2;
  snapshot.services[1].outcomes = {50, 4};
  snapshot.workers = {{0, 0, 1, Duration::seconds(2)}, {1, 0, 1, Duration::seconds(3)}};
  const PoolTotals totals = totals_of(snapshot);
  EXPECT_EQ(totals.at, at_seconds(5));
  EXPECT_EQ(totals.on_time, 150u);
  EXPECT_EQ(totals.bad, 10u);
  EXPECT_EQ(totals.busy, Duration::seconds(5));
}

TEST(PoolWindow, EachTypeHasTheIdleTimeOfItsOwnWorkers) {
  EngineSnapshot snapshot;
  snapshot.worker_types = {"gpu", "cpu"};
  snapshot.services.resize(1);
  snapshot.now = at_seconds(10);
  snapshot.workers = {{0, 0, 1, Duration::seconds(9)},
                      {1, 1, 1, Duration::seconds(1)},
                      {2, 1, 1, Duration::seconds(1)},
                      {3, 1, 1, Duration::seconds(5)}};
  snapshot.workers[3].serving = false;
  const PoolTotals from = totals_of(snapshot);
  EXPECT_EQ(from.workers(), 3u);
  snapshot.now = at_seconds(20);
  snapshot.services[0].outcomes = {90, 10};
  snapshot.workers[0].busy += Duration::seconds(10);
  snapshot.workers[1].busy += Duration::seconds(4);
  const auto uses = uses_between(from, totals_of(snapshot));
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].workers, 1u);
  EXPECT_DOUBLE_EQ(uses[0].bad_rate, 0.1);
  EXPECT_EQ(uses[0].idle_fraction, 0);
  EXPECT_EQ(uses[1].workers, 2u);
  EXPECT_DOUBLE_EQ(uses[1].bad_rate, 0.1);
  EXPECT_DOUBLE_EQ(uses[1].idle_fraction, 0.8);
}

TEST(PoolWindow, ImpossibleDeadlinesAskForNoWorkers) {
  EngineSnapshot snapshot;
  snapshot.services.resize(1);
  snapshot.services[0].outcomes = {940, 0, 60};
  snapshot.now = at_seconds(10);
  const PoolTotals totals = totals_of(snapshot);
  EXPECT_EQ(totals.bad, 0u);
  EXPECT_LE(signal_between({}, totals, 8).workers_to_add, 0);
}

TEST(PoolWindow, BadRequestsAskForWorkers) {
  const PoolTotals from{at_seconds(10), 1000, 500, Duration::seconds(30)};
  const PoolTotals to{at_seconds(20), 1080, 520, Duration::seconds(70)};
  const AutoscaleSignal signal = signal_between(from, to, 4);
  EXPECT_EQ(signal.window, Duration::seconds(10));
  EXPECT_DOUBLE_EQ(signal.bad_rate, 0.2);
  EXPECT_EQ(signal.idle_fraction, 0);
  EXPECT_EQ(signal.workers_to_add, 1);
}

TEST(PoolWindow, IdleWorkersAreOffered) {
  const PoolTotals from{at_seconds(10), 1000, 500, Duration::seconds(30)};
  const PoolTotals to{at_seconds(20), 1100, 500, Duration::seconds(50)};
  const AutoscaleSignal signal = signal_between(from, to, 8);
  EXPECT_EQ(signal.bad_rate, 0);
  EXPECT_DOUBLE_EQ(signal.idle_fraction, 0.75);
  EXPECT_EQ(signal.workers_to_add, -6);
}

TEST(PoolWindow, WhoCannotSaveAnybodyKeepsWhatItHas) {
  const PoolTotals from{at_seconds(10), 0, 0, Duration()};
  PoolTotals to{at_seconds(20), 100, 0, Duration()};
  to.refused = 1000;
  EXPECT_EQ(signal_between(from, to, 8).workers_to_add, 0);
  to.refused = 20;  // a few whom nobody could have saved
  EXPECT_EQ(signal_between(from, to, 8).workers_to_add, -7);
  to.refused = to.lacking = to.bad = 1000;
  EXPECT_EQ(signal_between(from, to, 8).bad_rate, 1000.0 / 1100);
}

// One is refused while the totals are read: it stands in one of its two counts.
TEST(PoolWindow, WhatIsCountedMeanwhileIsNoDifferenceBelowZero) {
  PoolTotals from{at_seconds(10), 5, 5, Duration()}, to{at_seconds(20), 5, 6, Duration()};
  from.refused = to.refused = from.lacking = 5;
  to.lacking = 6;
  EXPECT_EQ(signal_between(from, to, 8).bad_rate, 1);
}

TEST(PoolWindow, NoRequestsAndBatchesFromBeforeTheWindow) {
  const PoolTotals from{at_seconds(10), 7, 7, Duration::seconds(1)};
  EXPECT_EQ(signal_between(from, {at_seconds(20), 7, 7, Duration::seconds(1)}, 3).workers_to_add,
            -2);
  const AutoscaleSignal long_batch =
      signal_between(from, {at_seconds(11), 8, 7, Duration::seconds(9)}, 3);
  EXPECT_EQ(long_batch.idle_fraction, 0);
  EXPECT_EQ(long_batch.workers_to_add, 0);
}

TEST(Periodic, CallsAgainAndAgainUntilItGoes) {
  int calls = 0;
  std::promise<void> third;
  {
    Periodic periodic(Duration::nanos(1), [&] {
      if (++calls == 3) third.set_value();
    });
    third.get_future().wait();
  }
  EXPECT_GE(calls, 3);
  Periodic never(Duration::seconds(1000), [] { FAIL(); });
}

}  // namespace
}  // namespace fermata::engine
