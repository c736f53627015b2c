#include "policy/stream/stream_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

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
  EXPECT_EQ(sessions.advice("a", 1).input_size, 100);  // the smallest until there is a plan
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
  EXPECT_EQ(sessions.advice("b", 1).input_size, 300);
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
  EXPECT_EQ(sessions.advice("a", 1).input_size, 300);  // alone it gets the best
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
  EXPECT_EQ(sessions.advice("a", 1).input_size, 100);
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

TEST(StreamSessions, WhoIsNotKnownIsNotToldThatItIsUnmapped) {
  StreamSessions sessions(three_sizes());
  StreamFrame frame = frame_of("a");
  frame.rate_rps = -1;
  EXPECT_FALSE(sessions.frame(frame, second(1)).ok());
  EXPECT_EQ(sessions.clients(), 0);
  EXPECT_EQ(sessions.advice("a", 1).input_size, 100);
}

TEST(StreamSessions, WhoFitsNowhereIsTold) {
  StreamSessions sessions(three_sizes());
  StreamFrame far = frame_of("far");
  far.slo = Duration::millis(15);
  ASSERT_TRUE(sessions.hello(far, second(1)).ok());
  plan_now(sessions, second(1));
  EXPECT_EQ(sessions.advice("far", 1).input_size, 0);
  EXPECT_EQ(sessions.frame(far, second(1.1)).status().code(), absl::StatusCode::kUnavailable);
  far.slo = Duration::millis(100);
  ASSERT_TRUE(sessions.hello(far, second(1.2)).ok());
  plan_now(sessions, second(1.2));
  EXPECT_EQ(sessions.advice("far", 1).input_size, 300);
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

// Two runs of the smallest DNN leave its 12 kB half a millisecond of 5: 192 Mbit/s are needed.
StreamSettings quick() {
  StreamSettings settings = three_sizes();
  settings.slack = Duration::micros(500);
  for (auto& v : settings.variants) {
    v.request_kb = 12 * v.input_size / 100.0;
    v.latency = *LatencyTable::make(TableLatency{{{1, 1.5 + v.input_size / 200.0}}}, 1);
  }
  return settings;
}

StreamFrame tight_frame(double rate, std::optional<double> mbps) {
  StreamFrame f = frame_of("a");
  f.slo = Duration::millis(5);
  f.rate_rps = rate;
  f.bandwidth_mbps = mbps;
  f.round_trip.reset();
  f.bytes = 12'000;
  return f;
}

// The first transfer on a connection takes long. Whoever sends seldom has only it when its first
// plan is made, and measures no others if that plan leaves it out.
TEST(StreamSessions, OneSlowTransferLeavesNobodyUnmappedAtAnyRate) {
  for (const double rate : {0.5, 5.0, 15.0, 60.0}) {
    StreamSessions sessions(quick());
    const std::optional<double> told[] = {std::nullopt, 32,  60,  80, 500, 32,  500,
                                          500,          500, 500, 32, 500, 500, 500};
    Time now = second(1);
    for (const auto& mbps : told) {
      const auto route = sessions.frame(tight_frame(rate, mbps), now);
      ASSERT_TRUE(route.ok()) << route.status();
      EXPECT_GE(route->deadline, now + Duration::millis(2)) << rate;  // it can be answered
      plan_now(sessions, now);
      EXPECT_NE(sessions.advice("a", 1).input_size, 0) << rate;
      now = now + Duration::from_seconds(1 / rate);
    }
  }
}

// A link that is slow frame after frame is.
TEST(StreamSessions, AsManySlowTransfersDecideAtAnyRate) {
  for (const double rate : {0.5, 15.0, 60.0}) {
    StreamSessions sessions(quick());
    Time now = second(1);
    int served = 0;
    for (; served < 100 && sessions.frame(tight_frame(rate, 32), now).ok(); ++served) {
      plan_now(sessions, now);
      now = now + Duration::from_seconds(1 / rate);
    }
    EXPECT_EQ(served, 8) << rate;
    StreamFrame hello = tight_frame(rate, 500);  // filled up, it tells that the link is faster
    ASSERT_TRUE(sessions.hello(hello, now).ok());
    plan_now(sessions, now);
    EXPECT_NE(sessions.advice("a", 1).input_size, 0) << rate;
  }
}

// Until eight frames have told of its link, who is unmapped may send again after four seconds, each
// time. Only frames measure: hellos say what the last one did.
TEST(StreamSessions, WhoHasSentFewFramesIsNotRefusedForLonger) {
  StreamSessions sessions(quick());
  std::vector<double> measured = {500, 20, 20, 20, 20, 1};  // the last one comes first
  double mbps = 1;
  bool is_served = false;
  for (double at = 1; at < 30; ++at) {
    const bool is_mapped = sessions.advice("a", 1).input_size != 0;
    if (is_mapped) {
      is_served = sessions.frame(tight_frame(1, mbps), second(at)).ok() && mbps == 500;
      if (!measured.empty()) {
        mbps = measured.back();
        measured.pop_back();
      }
    } else {
      ASSERT_TRUE(sessions.hello(tight_frame(1, mbps), second(at)).ok());
    }
    for (const double later : {0.0, 0.5}) plan_now(sessions, second(at + later));
  }
  EXPECT_TRUE(is_served);
  EXPECT_NE(sessions.advice("a", 1).input_size, 0);
}

// Where the objective has no time to wait for the others of a batch, a frame starts at once.
TEST(StreamSessions, FramesDoNotWaitForTheirPhaseBeyondTheirDeadline) {
  StreamSettings settings = quick();
  settings.phases = true;
  StreamSessions sessions(settings);
  Time now = second(1);
  for (int i = 0; i < 20; ++i) {
    const auto route = sessions.frame(tight_frame(15, 500), now);
    ASSERT_TRUE(route.ok()) << route.status();
    EXPECT_LE(route->start_from + Duration::millis(2), route->deadline);
    plan_now(sessions, now);
    now = now + Duration::micros(66'000 + 300 * i);
  }
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
  EXPECT_EQ(sessions.advice("huge", 1).input_size, 0);
  ASSERT_TRUE(sessions.hello(frame_of("honest", 2), second(1.1)).ok());
  plan_now(sessions, second(1.2));  // nothing is known of its own
  plan_now(sessions, second(1.7));
  EXPECT_EQ(sessions.advice("honest", 2).input_size, 300);
  ASSERT_TRUE(sessions.frame(frame_of("honest", 2), second(1.8)).ok());
  plan_now(sessions, second(2.2));
  EXPECT_EQ(sessions.advice("honest", 2).input_size, 300);
  EXPECT_EQ(sessions.advice("huge", 1).input_size, 0);
  StreamFrame small = frame_of("huge", 1);
  for (int i = 0; i < 200; ++i) {
    small.bytes = 10;
    (void)sessions.frame(small, second(3 + i));
    (void)sessions.frame(frame_of("honest", 2), second(3 + i));
    plan_now(sessions, second(3.1 + i));
  }
  plan_now(sessions, second(203));
  EXPECT_EQ(sessions.advice("huge", 1).input_size, 300);
  EXPECT_EQ(sessions.advice("honest", 2).input_size, 300);
}

// Two connections may have a client of the same name; neither sees or changes the other's.
TEST(StreamSessions, AnIdBelongsToOneConnection) {
  StreamSessions sessions(three_sizes());
  ASSERT_TRUE(sessions.hello(frame_of("a", 1), second(1)).ok());
  plan_now(sessions, second(1));
  StreamFrame twin = frame_of("a", 2);
  twin.slo = Duration::millis(1);
  twin.rate_rps.reset();
  EXPECT_EQ(sessions.hello(twin, second(1.1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(sessions.advice("a", 2).input_size, 100);  // as to who is not known
  twin.rate_rps = 10;
  ASSERT_TRUE(sessions.hello(twin, second(1.1)).ok());
  EXPECT_EQ(sessions.clients(), 2);
  const auto clients = sessions.problem(second(1.1)).clients;
  EXPECT_EQ(clients[0].slo_ms, 98);
  EXPECT_NE(clients[0].id, clients[1].id);
  sessions.leave("a", 2);
  EXPECT_EQ(sessions.clients(), 1);
  EXPECT_EQ(sessions.advice("a", 1).input_size, 300);
  for (const char* other : {"b", "c"}) {
    ASSERT_TRUE(sessions.hello(frame_of(other, 3), second(2)).ok());
  }
  sessions.close(1);
  EXPECT_EQ(sessions.clients(), 2);
  sessions.leave("b", 3);
  sessions.close(3);
  EXPECT_EQ(sessions.clients(), 0);
}

// A connection and an address have their limits, whose error says which, and others get in.
TEST(StreamSessions, OneConnectionAndOneAddressLeaveRoomForOthers) {
  StreamSettings settings = three_sizes();
  settings.most_clients = 16;
  StreamSessions sessions(settings);
  const auto come = [&](int number, uint64_t owner, const char* address) {
    StreamFrame f = frame_of(std::to_string(number), owner);
    f.address = address;
    return std::string(sessions.frame(f, second(1)).status().message());
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(come(i, 1, "10.0.0.1"), "");
  EXPECT_EQ(come(4, 1, "10.0.0.1"),
            "this connection has 4 clients already, expected at most max_clients_per_connection");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(come(i, 2, "10.0.0.1"), "");
  EXPECT_EQ(come(0, 3, "10.0.0.1"),
            "the address 10.0.0.1 has 8 clients already, expected at most "
            "max_clients_per_address");
  EXPECT_EQ(come(0, 4, "10.0.0.2"), "");
  sessions.close(2);
  EXPECT_EQ(come(0, 3, "10.0.0.1"), "");
}

// Where there is no room, who has sent no frame lately makes some: first of the connection that has
// the most, and of those that are as new and as few as the newcomer only once they count nothing.
TEST(StreamSessions, SilentClientsMakeRoomForOthers) {
  StreamSettings settings = three_sizes();
  settings.most_clients = 16;
  settings.new_clients_rps = 1000;
  StreamSessions sessions(settings);
  const auto come = [&](int number, uint64_t owner, double at) {
    StreamFrame f = frame_of(std::to_string(number), owner);
    f.address = "10.0.0.1";
    return sessions.hello(f, second(at)).ok();
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(come(i, 1, 1));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(come(i, 2 + static_cast<uint64_t>(i), 1));
  for (uint64_t owner = 10; owner < 13; ++owner) EXPECT_TRUE(come(0, owner, 1.1)) << owner;
  EXPECT_EQ(sessions.clients(), 8u);
  EXPECT_FALSE(come(0, 13, 1.2));  // one of each connection, and all of them new
  StreamFrame sends = frame_of("0", 10);
  sends.address = "10.0.0.1";
  ASSERT_TRUE(sessions.frame(sends, second(3)).ok());
  for (uint64_t owner = 13; owner < 20; ++owner) EXPECT_TRUE(come(0, owner, 4.2)) << owner;
  sends.rate_rps.reset();
  EXPECT_TRUE(sessions.frame(sends, second(4.3)).ok());  // it is known still
  EXPECT_EQ(sessions.clients(), 8u);
}

// Who only says hello counts for three seconds with what it says, as far as its address is
// believed; then for nothing, however often it says it again.
TEST(StreamSessions, WordsWithoutFramesCountForLittle) {
  StreamSessions sessions(three_sizes());
  const auto hello = [&](const char* client, double at) {
    StreamFrame f = frame_of(client, 7);
    f.rate_rps = 20;
    f.address = "10.0.0.1";
    ASSERT_TRUE(sessions.hello(f, second(at)).ok());
  };
  const auto counted = [&](double at) {
    double sum = 0;
    for (const auto& c : sessions.problem(second(at)).clients) sum += c.rate_rps;
    return sum;
  };
  for (const char* client : {"a", "b", "c"}) hello(client, 1);
  EXPECT_EQ(counted(1), 30);
  EXPECT_EQ(counted(3.9), 30);
  for (const char* client : {"a", "b", "c"}) hello(client, 4);
  EXPECT_EQ(counted(4.1), 0);
  sessions.close(7);
  for (const char* client : {"a", "b", "c"}) hello(client, 5);
  EXPECT_LE(counted(5), 5);  // a second brings one frame back
}

TEST(StreamSessions, NewClientsOfAnAddressAreBelievedAsFarAsIsSet) {
  for (const double most : {0.0, 7.0, 45.0, 1000.0}) {
    StreamSettings settings = three_sizes();
    settings.new_clients_rps = most;
    StreamSessions sessions(settings);
    for (const char* client : {"a", "b", "c"}) {
      StreamFrame f = frame_of(client, 7);
      f.rate_rps = 20;
      f.address = "10.0.0.1";
      ASSERT_TRUE(sessions.hello(f, second(1)).ok());
    }
    double counted = 0;
    for (const auto& c : sessions.problem(second(1)).clients) counted += c.rate_rps;
    EXPECT_EQ(counted, std::min(most, 60.0));
  }
}

// The rate of those that are sent, once they are, and nothing after a few silent seconds.
TEST(StreamSessions, ClientsCountWithWhatTheySend) {
  StreamSessions sessions(three_sizes());
  StreamFrame f = frame_of("a");
  f.rate_rps = 100;
  double at = 1;
  for (; at < 6; at += 0.1) ASSERT_TRUE(sessions.frame(f, second(at)).ok());
  EXPECT_NEAR(sessions.problem(second(at)).clients.at(0).rate_rps, 10, 1.5);
  EXPECT_LT(sessions.problem(second(at + 2)).clients.at(0).rate_rps, 2);
  EXPECT_TRUE(sessions.problem(second(at + 3)).clients.empty());
  EXPECT_EQ(sessions.advice("a", 1).input_size, 100);  // as when it was new
  ASSERT_TRUE(sessions.frame(f, second(at + 4)).ok());
  EXPECT_TRUE(sessions.wants_plan(second(at + 4)));
}

// One frame in ten seconds is not one in the second after it, and none between.
TEST(FrameRate, OfFewFramesIsTheirRateAllTheTime) {
  FrameRate rate(0.1, 0.1, second(0));
  for (int at = 0; at <= 100; at += 10) rate.count(1, second(at));
  for (int at = 100; at < 110; ++at) {
    EXPECT_NEAR(rate.per_second(second(at)), 0.09, 0.02) << at;
  }
  EXPECT_EQ(rate.per_second(second(130)), 0);
}

// Sessions that are all silent are no clients to plan for, and the plan of none is nobody's.
TEST(StreamSessions, NobodyIsPlannedForWhereAllAreSilent) {
  using plan::StreamSolver;
  for (const auto solver : {StreamSolver::kBest, StreamSolver::kExact, StreamSolver::kAnnealing}) {
    StreamSettings settings = three_sizes();
    settings.solver = solver;
    StreamSessions sessions(settings);
    ASSERT_TRUE(sessions.frame(frame_of("a"), second(1)).ok());
    plan_now(sessions, second(1));
    EXPECT_EQ(sessions.advice("a", 1).input_size, 300);
    plan::StreamProblem problem = sessions.problem(second(5));
    ASSERT_TRUE(problem.clients.empty());
    problem.max_steps = 0;
    const plan::StreamPlan plan = plan::plan_streams(problem);
    EXPECT_TRUE(plan.exact);
    EXPECT_TRUE(plan.workers.empty());
    sessions.planned(problem, plan);
    EXPECT_EQ(sessions.advice("a", 1).input_size, 100);
    EXPECT_EQ(sessions.totals().plans, 2u);
  }
}

// Frames whose objective has gone by what their client says take no worker.
TEST(StreamSessions, FramesThatCannotBeAnsweredCountNothing) {
  StreamSessions sessions(three_sizes());
  StreamFrame f = frame_of("a");
  f.bandwidth_mbps = 0.1;
  for (double at = 1; at < 5; at += 0.1) ASSERT_TRUE(sessions.frame(f, second(at)).ok());
  EXPECT_TRUE(sessions.problem(second(5)).clients.empty());
}

// Frames that are larger than their client was told are as many of those as they take time.
TEST(StreamSessions, LargerFramesThanToldAreTheirSendersAlone) {
  StreamSettings settings = three_sizes();
  settings.workers = 1;
  StreamSessions sessions(settings);
  StreamFrame f = frame_of("a");
  f.bandwidth_mbps = 1.5;  // bears the smallest only
  f.input_size = 100;
  for (double at = 1; at < 6; at += 0.1) ASSERT_TRUE(sessions.frame(f, second(at)).ok());
  plan_now(sessions, second(6));
  ASSERT_EQ(sessions.advice("a", 1).input_size, 100);
  f.input_size = 300;  // three times the time
  int taken = 0;
  std::string why;
  for (double at = 10; at < 20; at += 0.1) {
    const auto route = sessions.frame(f, second(at));
    taken += route.ok();
    if (!route.ok()) why = std::string(route.status().message());
  }
  EXPECT_LE(taken, (10 * 1.25 * 10 + 14) / 3 + 1);
  EXPECT_THAT(why, testing::HasSubstr("a frame of 300 counts as 3.0 of 100, which it was told"));
  EXPECT_LE(sessions.problem(second(20)).clients.at(0).rate_rps, 10);
}

// However large one frame is, its sender may send again in less than a minute, and hears when.
TEST(StreamSessions, OneLargeFrameDoesNotShutItsSenderOut) {
  StreamSettings settings = three_sizes();
  settings.variants[2].latency = *LatencyTable::make(TableLatency{{{1, 1000}, {4, 1600}}}, 4);
  StreamSessions sessions(settings);
  StreamFrame f = frame_of("slow");
  f.rate_rps = 0.1;
  f.input_size = 300;  // a hundred times the time of 100, which it is told
  ASSERT_TRUE(sessions.frame(f, second(1)).ok());
  f.input_size = 100;
  EXPECT_THAT(std::string(sessions.frame(f, second(2)).status().message()),
              testing::HasSubstr("that it registered; it may send the next in 47.0 s"));
  EXPECT_TRUE(sessions.frame(f, second(49.1)).ok());
}

// Mean accuracy of what an honest client of 10 frames a second is told in 20 s, planned every half
// second, beside a stranger that does `act` every 0.1 s.
double accuracy_beside(const std::function<void(StreamSessions&, Time)>& act) {
  StreamSessions sessions(three_sizes());
  double sum = 0;
  for (int i = 0; i < 200; ++i) {
    const Time now = second(1 + i * 0.1);
    act(sessions, now);
    StreamFrame f = frame_of("honest", 1);
    f.address = "10.0.0.1";
    f.input_size = sessions.advice("honest", 1).input_size;
    if (*f.input_size == 0) f.input_size.reset();
    const auto route = sessions.frame(f, now);
    if (route.ok()) sum += sessions.settings().variants[route->variant].accuracy;
    if (sessions.wants_plan(now)) plan_now(sessions, now);
  }
  return sum / 200;
}

StreamFrame strange(int number, uint64_t owner, double rate) {
  StreamFrame f = frame_of(std::to_string(number), owner);
  f.address = "10.0.0.2";
  f.rate_rps = rate;
  return f;
}

TEST(StreamSessions, StrangersThatOnlySayHelloCostOthersNothing) {
  const double alone = accuracy_beside([](auto&, Time) {});
  EXPECT_GT(alone, 0.59);
  const double beside_fast = accuracy_beside([](StreamSessions& sessions, Time now) {
    for (int i = 0; i < 8; ++i) (void)sessions.hello(strange(i, 2, 120), now);
  });
  EXPECT_GE(beside_fast, 0.98 * alone);
  const double beside_many = accuracy_beside([](StreamSessions& sessions, Time now) {
    for (int i = 0; i < 256; ++i) (void)sessions.hello(strange(i, 2, 0.1), now);
  });
  EXPECT_GE(beside_many, 0.98 * alone);
  const double beside_new_ones = accuracy_beside([](StreamSessions& sessions, Time now) {
    sessions.close(2);
    for (int i = 0; i < 8; ++i) (void)sessions.hello(strange(i, 2, 120), now);
  });
  EXPECT_GE(beside_new_ones, 0.98 * alone);
  // What is asked for cannot be had in time: it counts nothing either.
  const double beside_hasty = accuracy_beside([](StreamSessions& sessions, Time now) {
    StreamFrame f = strange(0, 2, 120);
    f.slo = Duration::millis(5);
    (void)sessions.frame(f, now);
  });
  EXPECT_GE(beside_hasty, 0.98 * alone);
}

// Those of a client with time that come at once after its link stood still are no flood.
TEST(StreamSessions, FramesThatALinkHeldForLessThanTheirObjectiveAreTaken) {
  StreamSessions sessions(three_sizes());
  StreamFrame f = frame_of("patient");
  f.slo = Duration::seconds(5);
  ASSERT_TRUE(sessions.frame(f, second(1)).ok());
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(sessions.frame(f, second(5)).ok()) << i;
  int taken = 0;
  f.slo = Duration::millis(100);
  f.client = "hasty";
  ASSERT_TRUE(sessions.frame(f, second(1)).ok());
  for (int i = 0; i < 40; ++i) taken += sessions.frame(f, second(5)).ok();
  EXPECT_EQ(taken, 14);  // what it sends in a second, and four
}

// Those that waited for a scheduler may be told of after one that came later.
TEST(StreamSessions, FramesThatAreToldOfInAnotherOrderAreNoFlood) {
  StreamSessions sessions(three_sizes());
  for (const double at : {1.0, 3.0, 1.5, 2.0, 2.5}) {
    EXPECT_TRUE(sessions.frame(frame_of("late"), second(at)).ok()) << at;
  }
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
            "stream_rate is missing, expected frames a second: the first message of a client on a "
            "connection names it");
  EXPECT_EQ(error([](auto& f) { f.slo.reset(); }), "stream_slo is missing, expected microseconds");
  EXPECT_EQ(error([](auto& f) { f.rate_rps = 1e9; }),
            "stream_rate is 1000000000, expected 0.1 to 120 frames a second");
  EXPECT_EQ(error([](auto& f) { f.bandwidth_mbps = -1; }),
            "stream_bandwidth is -1 Mbit/s, expected a positive number");
  EXPECT_EQ(sessions.clients(), 0);
  EXPECT_EQ(error([](auto& f) { f.input_size = 150; }),
            "stream_size is 150, expected one of 100, 200, 300");
  EXPECT_EQ(error([](auto& f) { f.client = "b"; }),
            "the service has 1 clients already, expected at most max_clients");
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
  EXPECT_EQ(sessions.advice("a", 1).shift, Duration());
  EXPECT_EQ(sessions.advice("b", 1).shift, Duration());
  for (const char* id : {"c", "d"}) {
    EXPECT_EQ(std::abs(sessions.advice(id, 1).shift.nanos()), Duration::millis(25).nanos());
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
    EXPECT_EQ(sessions.advice(id, 1).shift, sessions.advice("a", 1).shift) << id;
  }
}

}  // namespace
}  // namespace fermata::policy
