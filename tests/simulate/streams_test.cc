#include "simulate/streams.h"

#include <gtest/gtest.h>

namespace fermata::simulate {
namespace {

// Eight sizes of one detector on two workers; a link of 20, 15, 10, 7.5, 10 and 15 Mbit/s.
StreamRun cameras(uint32_t clients, double slo_ms) {
  StreamRun run;
  for (uint32_t v = 0; v < 8; ++v) {
    const double side = 128 + 64.0 * v;
    const double each_ms = 3 + side * side * 3e-5;
    const TableLatency latency{{{1, 20 + each_ms}, {12, 20 + 12 * each_ms}}};
    run.variants.push_back({"v" + std::to_string(v), static_cast<uint32_t>(side), 0.2 + 0.04 * v,
                            side * side * 4.5e-4, *LatencyTable::make(latency, 12)});
  }
  run.traces_mbps = {{20, 15, 10, 7.5, 10, 15}};
  run.hold_s = 10;
  run.duration_s = 60;
  for (uint32_t c = 0; c < clients; ++c) {
    run.clients.push_back({15, slo_ms, 2, 0, 1.7 * c, 0.013 * c});
  }
  return run;
}

StreamRunResult result_of(const StreamRun& run) {
  auto result = run_streams(run);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->offered, result->on_time + result->late + result->rejected + result->dropped);
  EXPECT_GT(result->offered, 0);
  return *result;
}

TEST(StreamRuns, FramesArriveInTimeOverALinkThatChanges) {
  for (const uint32_t clients : {1u, 4u}) {
    const StreamRunResult r = result_of(cameras(clients, 150));
    EXPECT_LE(r.miss_rate(), 0.02) << clients;
    EXPECT_GT(r.accuracy, 0.25) << clients;
    EXPECT_LE(r.estimate_error, 0.15) << clients;
  }
}

TEST(StreamRuns, AFixedShareOfTheObjectiveForEachAdaptationLosesToBothAsOne) {
  StreamRun run = cameras(4, 100);
  const StreamRunResult both = result_of(run);
  run.compute_share = 0.75;
  run.mode = StreamMode::kObjectiveAlone;
  const StreamRunResult objective = result_of(run);
  EXPECT_LT(objective.accuracy, both.accuracy);
  EXPECT_LE(objective.miss_rate(), 0.02);
  run.mode = StreamMode::kBandwidthAlone;
  EXPECT_GT(result_of(run).miss_rate(), objective.miss_rate()) << "what is sent comes too late";
}

TEST(StreamRuns, APoolThatSharesItsWorkersMissesLessThanClientsOnWorkersOfTheirOwn) {
  StreamRun run = cameras(8, 100);
  const StreamRunResult pool = result_of(run);
  run.dispatch = StreamDispatch::kWorkers;
  const StreamRunResult workers = result_of(run);
  run.dispatch = StreamDispatch::kBatches;
  const StreamRunResult batches = result_of(run);
  EXPECT_LE(pool.miss_rate(), workers.miss_rate());
  EXPECT_LE(workers.miss_rate(), batches.miss_rate());
  EXPECT_LT(pool.miss_rate(), batches.miss_rate());
  EXPECT_NEAR(pool.accuracy, batches.accuracy, 0.01) << "plans are the same";
}

TEST(StreamRuns, BeatTheirParts) {
  const StreamRun run = cameras(4, 100);
  const StreamRunResult both = result_of(run);
  for (const uint32_t variant : {0u, 4u, 7u}) {
    StreamRun fixed = run;
    fixed.mode = StreamMode::kFixed;
    fixed.variant = variant;
    fixed.scheduler = "edf";
    const StreamRunResult r = result_of(fixed);
    if (variant == 0) {
      EXPECT_GT(both.accuracy, r.accuracy);
    } else {
      EXPECT_LT(both.miss_rate(), r.miss_rate());
    }
  }
  StreamRun alone = run;
  alone.mode = StreamMode::kDnnAlone;
  alone.variant = 4;
  EXPECT_LT(both.miss_rate(), result_of(alone).miss_rate());
}

TEST(StreamRuns, PhasesRaiseAccuracy) {
  StreamRun run = cameras(4, 75);
  const double without = result_of(run).accuracy;
  run.phases = true;
  EXPECT_GT(result_of(run).accuracy, without);
}

// Links that lose half of their bandwidth or more within a second, now and then.
TEST(StreamRuns, FewFramesAreLateWhenLinksFall) {
  StreamRun run = cameras(2, 150);
  run.traces_mbps = {{14, 16, 5, 13, 18, 15, 12, 6, 14, 20, 17, 4.5, 11, 13, 16, 9}};
  run.hold_s = 1;
  EXPECT_LE(result_of(run).miss_rate(), 0.03);
}

// Ten clients with phases, at no lower accuracy than eight without and few misses.
TEST(StreamRuns, PhasesServeMoreClients) {
  StreamRun more = cameras(10, 100);
  more.phases = true;
  const StreamRunResult with = result_of(more), without = result_of(cameras(8, 100));
  EXPECT_GE(with.accuracy, without.accuracy - 0.002);
  EXPECT_LE(with.miss_rate(), 0.02);
}

// Most switches find their DNN there where a worker holds three of eight; where it holds one,
// frames run on the DNN before until the wanted one is loaded; widths are there at once.
TEST(StreamRuns, WhatIsLoadedAheadIsThere) {
  StreamRun run = cameras(2, 150);
  run.traces_mbps = {{14, 16, 5, 13, 18, 15, 12, 6, 14, 20, 17, 4.5, 11, 13, 16, 9}};
  run.hold_s = 1;
  run.room = 1;
  const StreamRunResult one = result_of(run);
  run.room = 3;
  const StreamRunResult three = result_of(run);
  run.room = 1;
  run.load_ms = 0;
  const StreamRunResult widths = result_of(run);
  EXPECT_GT(one.stale, 20);
  EXPECT_LT(three.stale, one.stale / 2);
  EXPECT_GT(three.prefetched, three.fetched);
  EXPECT_EQ(widths.stale, 0);
}

TEST(StreamRuns, TheSameRunGivesTheSameResult) {
  const StreamRunResult a = result_of(cameras(3, 100)), b = result_of(cameras(3, 100));
  EXPECT_EQ(a.on_time, b.on_time);
  EXPECT_EQ(a.accuracy, b.accuracy);
  EXPECT_EQ(a.batches, b.batches);
  EXPECT_EQ(a.estimate_error, b.estimate_error);
}

TEST(StreamRuns, AnUnknownSchedulerIsAnError) {
  StreamRun run = cameras(1, 100);
  run.scheduler = "fifo";
  EXPECT_EQ(run_streams(run).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fermata::simulate
