#include "policy/stream/stream_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/streams/stream_planner.h"

namespace fermata::policy {
namespace {

Time second(double s) { return Time() + Duration::from_seconds(s); }

StreamSettings three_sizes() {
  StreamSettings s;
  for (uint32_t v = 0; v < 3; ++v) {
    const TableLatency latency{{{1, 10.0 + 10 * v}, {4, 16.0 + 16 * v}}};
    s.variants.push_back({"v" + std::to_string(v), 100 * (v + 1), 0.2 * (v + 1), 10.0 * (v + 1),
                          *LatencyTable::make(latency, 4)});
  }
  s.workers = 1;
  return s;
}

StreamFrame frame_of(std::string client, uint64_t owner = 1) {
  StreamFrame f;
  f.client = std::move(client);
  f.owner = owner;
  f.rate_rps = 10;
  f.slo = Duration::millis(100);
  f.bandwidth_mbps = 40;
  f.round_trip = Duration::millis(4);
  f.bytes = 10'000;
  return f;
}

void plan_now(StreamSessions& sessions, Time now) {
  const plan::StreamProblem problem = sessions.problem(now);
  sessions.planned(problem, plan::plan_streams(problem));
}

TEST(StreamSessions, AFrameHasWhatTheWayLeavesOfItsObjective) {
  StreamSessions sessions(three_sizes());
  const auto route = sessions.frame(frame_of("a"), second(1));
  ASSERT_TRUE(route.ok()) << route.status();
  EXPECT_EQ(route->network, Duration::millis(6));  // 80 kbit at 40 Mbit/s, and the round trip
  EXPECT_EQ(route->deadline, second(1) + Duration::millis(100 - 6 - 2));
  EXPECT_EQ(sessions.advice("a").input_size, 100);  // the smallest until there is a plan
}

// Two parts of one worker that keep their DNNs from plan to plan switch nothing.
TEST(StreamSessions, AWorkerInPartsSwitchesOnce) {
  StreamSessions sessions(three_sizes());
  ASSERT_TRUE(sessions.hello(frame_of("a"), second(1)).ok());
  ASSERT_TRUE(sessions.hello(frame_of("b"), second(1)).ok());
  const plan::StreamProblem problem = sessions.problem(second(1));
  plan::StreamPlan plan;
  plan.served = 2;
  plan.workers = {{0, 1, 1, {0}}, {0, 2, 1, {1}}};
  for (int i = 0; i < 5; ++i) sessions.planned(problem, plan);
  EXPECT_EQ(sessions.totals().switches, 1u);
  EXPECT_EQ(sessions.advice("b").input_size, 300);
}

// A plan counts on what a client is sure of, but caution does not leave it unserved.
TEST(StreamSessions, PlansCountOnTheSureBandwidth) {
  StreamSessions sessions(three_sizes());
  StreamFrame f = frame_of("a");
  f.sure_mbps = 20;
  ASSERT_TRUE(sessions.hello(f, second(1)).ok());
  EXPECT_EQ(sessions.problem(second(1)).clients[0].bandwidth_mbps, 20);
  f.sure_mbps = 0.001;  // 80 kbit within 100 - 2 - 4 - 3 * 10 ms need 1.25 Mbit/s
  ASSERT_TRUE(sessions.hello(f, second(2)).ok());
  EXPECT_NEAR(sessions.problem(second(2)).clients[0].bandwidth_mbps, 80 / 64.0, 1e-9);
  f.sure_mbps = 90;  // no more than it has
  ASSERT_TRUE(sessions.hello(f, second(3)).ok());
  EXPECT_EQ(sessions.problem(second(3)).clients[0].bandwidth_mbps, 40);
}

TEST(StreamSessions, PlansWhenClientsComeGoAndChange) {
  StreamSessions sessions(three_sizes());
  EXPECT_FALSE(sessions.wants_plan(second(1)));
  ASSERT_TRUE(sessions.hello(frame_of("a"), second(1)).ok());
  EXPECT_TRUE(sessions.wants_plan(second(1)));
  plan_now(sessions, second(1));
  EXPECT_EQ(sessions.advice("a").input_size, 300);  // alone it gets the best
  EXPECT_FALSE(sessions.wants_plan(second(1.2)));
  EXPECT_TRUE(sessions.wants_plan(second(1.5)));  // a period
  StreamFrame slower = frame_of("a");
  slower.bandwidth_mbps = 39;
  ASSERT_TRUE(sessions.frame(slower, second(1.2)).ok());
  EXPECT_FALSE(sessions.wants_plan(second(1.2)));
  slower.bandwidth_mbps = 1.5;
  ASSERT_TRUE(sessions.frame(slower, second(1.3)).ok());
  EXPECT_TRUE(sessions.wants_plan(second(1.3)));
  plan_now(sessions, second(1.3));
  EXPECT_EQ(sessions.advice("a").input_size, 100);
  sessions.leave("a", 1);
  EXPECT_TRUE(sessions.wants_plan(second(1.4)));
  EXPECT_EQ(sessions.clients(), 0);
}

TEST(StreamSessions, FramesUnderWayEndOnTheirOwnDnn) {
  StreamSessions sessions(three_sizes());
  ASSERT_TRUE(sessions.hello(frame_of("a"), second(1)).ok());
  plan_now(sessions, second(1));
  StreamFrame old = frame_of("a");
  old.input_size = 100;
  EXPECT_EQ(sessions.frame(old, second(1.1))->variant, 0);
  EXPECT_EQ(sessions.totals().mismatches, 1);
  old.input_size = 300;
  EXPECT_EQ(sessions.frame(old, second(1.2))->variant, 2);
  EXPECT_EQ(sessions.totals().mismatches, 1);
}

TEST(StreamSessions, WhoFitsNowhereIsTold) {
  StreamSessions sessions(three_sizes());
  StreamFrame far = frame_of("far");
  far.slo = Duration::millis(15);
  ASSERT_TRUE(sessions.hello(far, second(1)).ok());
  plan_now(sessions, second(1));
  EXPECT_EQ(sessions.advice("far").input_size, 0);
  EXPECT_EQ(sessions.frame(far, second(1.1)).status().code(), absl::StatusCode::kUnavailable);
  far.slo = Duration::millis(100);
  ASSERT_TRUE(sessions.hello(far, second(1.2)).ok());
  plan_now(sessions, second(1.2));
  EXPECT_EQ(sessions.advice("far").input_size, 300);
}

// The accuracy, where that is what nobody can give.
TEST(StreamSessions, WhoAsksForTooMuchIsToldWhatOfIt) {
  StreamSessions sessions(three_sizes());
  StreamFrame strict = frame_of("strict");
  strict.min_accuracy = 0.7;
  EXPECT_THAT(std::string(sessions.hello(strict, second(1)).message()),
              testing::HasSubstr("stream_min_accuracy is 0.7, expected 0 to 0.6"));
  strict.min_accuracy = 0.5;
  strict.slo = Duration::millis(30);  // too short for the one DNN that is so accurate
  ASSERT_TRUE(sessions.hello(strict, second(1)).ok());
  plan_now(sessions, second(1));
  EXPECT_THAT(std::string(sessions.frame(strict, second(1.1)).status().message()),
              testing::HasSubstr("no DNN of an accuracy of 0.5 or more"));
}

// Where frames' sizes are measured, one client's change nothing for others, whoever came first.
TEST(StreamSessions, HugeFramesAreTheirSendersAlone) {
  StreamSettings settings = three_sizes();
  for (auto& variant : settings.variants) variant.request_kb = 0;
  settings.workers = 2;
  StreamSessions sessions(settings);
  StreamFrame huge = frame_of("huge", 1);
  huge.bytes = 60'000'000;
  ASSERT_TRUE(sessions.frame(huge, second(1)).ok());
  plan_now(sessions, second(1));
  EXPECT_EQ(sessions.advice("huge").input_size, 0);
  ASSERT_TRUE(sessions.hello(frame_of("honest", 2), second(1.1)).ok());
  plan_now(sessions, second(1.2));  // nothing is known of its own
  plan_now(sessions, second(1.7));
  EXPECT_EQ(sessions.advice("honest").input_size, 300);
  ASSERT_TRUE(sessions.frame(frame_of("honest", 2), second(1.8)).ok());
  plan_now(sessions, second(2.2));
  EXPECT_EQ(sessions.advice("honest").input_size, 300);
  EXPECT_EQ(sessions.advice("huge").input_size, 0);
  StreamFrame small = frame_of("huge", 1);
  for (int i = 0; i < 200; ++i) {
    small.bytes = 10;
    (void)sessions.frame(small, second(3 + i));
    (void)sessions.frame(frame_of("honest", 2), second(3 + i));
  }
  plan_now(sessions, second(203));
  EXPECT_EQ(sessions.advice("huge").input_size, 300);
  EXPECT_EQ(sessions.advice("honest").input_size, 300);
}

TEST(StreamSessions, AnIdBelongsToOneConnection) {
  StreamSessions sessions(three_sizes());
  ASSERT_TRUE(sessions.hello(frame_of("a", 1), second(1)).ok());
  EXPECT_EQ(sessions.hello(frame_of("a", 2), second(2)).code(), absl::StatusCode::kAlreadyExists);
  sessions.leave("a", 2);  // not its own
  EXPECT_EQ(sessions.clients(), 1);
  EXPECT_TRUE(sessions.hello(frame_of("a", 2), second(7)).ok());  // the first has long been silent
  for (const char* other : {"b", "c"}) {
    ASSERT_TRUE(sessions.hello(frame_of(other, 3), second(8)).ok());
  }
  sessions.close(1);  // which has lost it
  EXPECT_EQ(sessions.clients(), 3);
  sessions.close(2);
  EXPECT_EQ(sessions.clients(), 2);
  sessions.leave("b", 3);
  sessions.close(3);
  EXPECT_EQ(sessions.clients(), 0);
}

TEST(StreamSessions, AFloodIsRejectedAndOthersAreNot) {
  StreamSessions sessions(three_sizes());
  int taken = 0;
  for (int i = 0; i < 2000; ++i) {
    taken += sessions.frame(frame_of("flood"), second(1 + i * 1e-3)).ok();
  }
  EXPECT_LE(taken, 10 * 1.25 * 2 + 15);
  EXPECT_EQ(sessions.totals().flooded, 2000 - taken);
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(sessions.frame(frame_of("calm"), second(3 + i / 10.0)).ok());
  EXPECT_LE(sessions.problem(second(5)).clients[1].rate_rps, 10);
}

TEST(StreamSessions, SaysWhatIsWrong) {
  StreamSettings settings = three_sizes();
  settings.most_clients = 1;
  StreamSessions sessions(settings);
  const auto error = [&](void (*change)(StreamFrame&)) {
    StreamFrame f = frame_of("a");
    change(f);
    return std::string(sessions.frame(f, second(1)).status().message());
  };
  EXPECT_EQ(error([](auto& f) { f.client = ""; }),
            "stream_client has 0 characters, expected 1 to 128");
  EXPECT_EQ(error([](auto& f) { f.rate_rps.reset(); }),
            "stream_rate is missing, expected frames a second");
  EXPECT_EQ(error([](auto& f) { f.slo.reset(); }), "stream_slo is missing, expected microseconds");
  EXPECT_EQ(error([](auto& f) { f.rate_rps = 1e9; }),
            "stream_rate is 1000000000, expected 0.1 to 120 frames a second");
  EXPECT_EQ(error([](auto& f) { f.bandwidth_mbps = -1; }),
            "stream_bandwidth is -1 Mbit/s, expected a positive number");
  EXPECT_EQ(sessions.clients(), 0);
  EXPECT_EQ(error([](auto& f) { f.input_size = 150; }),
            "stream_size is 150, expected one of 100, 200, 300");
  EXPECT_EQ(error([](auto& f) { f.client = "b"; }), "1 clients are connected already");
}

// Four clients of one rate whose batch is two come in two batches, half an interval apart.
TEST(StreamSessions, PhasesMakeBatches) {
  StreamSettings settings = three_sizes();
  settings.phases = true;
  settings.variants.resize(1);
  settings.variants[0].latency = *LatencyTable::make(TableLatency{{{1, 20}, {2, 24}}}, 2);
  StreamSessions sessions(settings);
  for (const char* id : {"a", "b", "c", "d"}) {
    StreamFrame f = frame_of(id);
    f.rate_rps = 20;
    ASSERT_TRUE(sessions.frame(f, second(1)).ok());
  }
  plan_now(sessions, second(1));
  EXPECT_EQ(sessions.advice("a").shift, Duration());
  EXPECT_EQ(sessions.advice("b").shift, Duration());
  for (const char* id : {"c", "d"}) {
    EXPECT_EQ(std::abs(sessions.advice(id).shift.nanos()), Duration::millis(25).nanos());
  }
  // Who comes in its phase starts when the others have come, who does not at once.
  StreamFrame f = frame_of("a");
  f.rate_rps = 20;
  EXPECT_EQ(sessions.frame(f, second(1.049))->start_from, second(1.053));
  f.client = "c";
  EXPECT_EQ(sessions.frame(f, second(1.05))->start_from, second(1.05));
}

// A steady client's frames wait for less than a batch, an unsteady one's for a whole one.
TEST(StreamSessions, PhasesAreForSteadyLinks) {
  StreamSettings settings = three_sizes();
  settings.phases = true;
  StreamSessions sessions(settings);
  ASSERT_TRUE(sessions.frame(frame_of("steady"), second(1)).ok());
  StreamFrame f = frame_of("unsteady");
  f.sure_mbps = 2;
  ASSERT_TRUE(sessions.frame(f, second(1)).ok());
  const auto clients = sessions.problem(second(1)).clients;
  EXPECT_EQ(clients[0].batches_ahead, 0.5);
  EXPECT_EQ(clients[1].batches_ahead, 1);
}

// Three frames whose batch of two takes more than half of the interval come as one batch of three.
TEST(StreamSessions, PhasesLeaveTimeForEachBatch) {
  StreamSettings settings = three_sizes();
  settings.phases = true;
  settings.variants.resize(1);
  settings.variants[0].latency = *LatencyTable::make(TableLatency{{{1, 30}, {2, 40}, {3, 45}}}, 3);
  StreamSessions sessions(settings);
  for (const char* id : {"a", "b", "c"}) {
    StreamFrame f = frame_of(id);
    f.rate_rps = 15;
    f.slo = Duration::millis(150);
    ASSERT_TRUE(sessions.frame(f, second(1)).ok());
  }
  plan_now(sessions, second(1));
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(sessions.advice(id).shift, sessions.advice("a").shift) << id;
  }
}

}  // namespace
}  // namespace fermata::policy
