#include "pick/picker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "base/random.h"

namespace fermata::pick {
namespace {

Time at(double s) { return Time() + Duration::from_seconds(s); }

TEST(ResponseTime, ALineIsFound) {
  ResponseTime time;
  EXPECT_EQ(time.expected(1, 5), 0);
  for (int i = 0; i < 200; ++i) {
    const double ahead = i % 7;
    time.seen(1, ahead, 0.010 + 0.003 * ahead);
  }
  EXPECT_NEAR(time.expected(1, 0), 0.010, 0.0005);
  EXPECT_NEAR(time.expected(1, 10), 0.040, 0.002);
  EXPECT_LT(time.spread(), 0.1);
}

TEST(ResponseTime, AtFirstOneAtATime) {
  ResponseTime time;
  time.seen(1, 0, 0.010);
  EXPECT_NEAR(time.expected(1, 0), 0.010, 0.001);
  EXPECT_NEAR(time.expected(1, 2), 0.030, 0.003);
}

TEST(ResponseTime, NothingIsEverExpectedToTakeLessThanNoTime) {
  ResponseTime time;
  for (int i = 0; i < 100; ++i) time.seen(1, i % 5, 0.010 - 0.002 * (i % 5));
  EXPECT_GE(time.expected(1, 100), 0);
  EXPECT_EQ(time.each(), 0);
}

// Servers that answer one request after another, each in `service` seconds.
struct Servers {
  Picker picker;
  std::map<std::string, double> service, free;
  struct Answer {
    double at;
    uint64_t ticket;
    double due;
    std::string server, tenant;
    bool operator<(const Answer& other) const { return at > other.at; }
  };
  std::priority_queue<Answer> answers;
  std::map<std::string, int> on_time, refused, sent;
  int late = 0;

  explicit Servers(std::map<std::string, double> of) : service(std::move(of)) {
    std::vector<std::string> names;
    for (const auto& [name, _] : service) names.push_back(name);
    picker.set_servers(names);
  }
  void until(double now) {
    while (!answers.empty() && answers.top().at <= now) {
      const Answer answer = answers.top();
      answers.pop();
      picker.ended(answer.ticket, at(answer.at), Picker::End::kAnswered);
      (answer.at <= answer.due ? on_time[answer.tenant] : late)++;
    }
  }
  void ask(double now, double budget, const std::string& tenant = "") {
    until(now);
    const auto verdict =
        picker.pick(at(now), {"model", tenant, Duration::from_seconds(budget), {}});
    if (verdict.refused) {
      ++refused[tenant];
      return;
    }
    ++sent[verdict.server];
    double& free_at = free[verdict.server];
    free_at = std::max(free_at, now) + service[verdict.server];
    answers.push({free_at, verdict.ticket, now + budget, verdict.server, tenant});
  }
};

TEST(Picker, OverloadIsShedSoThatWhatIsAdmittedIsInTime) {
  Servers servers({{"a", 0.010}, {"b", 0.010}});
  int asked = 0;
  for (double now = 0; now < 20; now += 0.0033, ++asked)
    servers.ask(now, 0.1);  // 1.5 of what they do
  servers.until(100);
  EXPECT_GE(servers.on_time[""], 0.95 * 2 * 20 / 0.010);
  EXPECT_LE(servers.late, 0.02 * asked);
  EXPECT_GT(servers.refused[""], 0.25 * asked);
}

TEST(Picker, BelowTheCapacityNobodyIsRefused) {
  Servers servers({{"a", 0.010}, {"b", 0.010}});
  for (double now = 0; now < 20; now += 0.0083) servers.ask(now, 0.1);
  servers.until(100);
  EXPECT_EQ(servers.refused[""], 0);
  EXPECT_EQ(servers.late, 0);
  EXPECT_NEAR(servers.sent["a"], servers.sent["b"], 0.2 * servers.sent["a"]);
}

TEST(Picker, ASlowServerGetsLess) {
  Servers servers({{"fast", 0.010}, {"slow", 0.040}});
  for (double now = 0; now < 20; now += 0.010) servers.ask(now, 0.1);  // 0.8 of what they do
  servers.until(100);
  EXPECT_LE(servers.late, 20);
  EXPECT_GT(servers.sent["fast"], 3 * servers.sent["slow"]);
}

TEST(Picker, ATenantThatFloodsLeavesOthersTheirShare) {
  Servers servers({{"a", 0.010}});
  int quiet = 0;
  for (int i = 0; i < 5000; ++i) {
    const double now = i * 0.002;
    servers.ask(now, 0.1, "loud");
    if (i % 10 == 0) servers.ask(now, 0.1, "quiet"), ++quiet;  // half of what the server does
  }
  servers.until(100);
  EXPECT_GE(servers.on_time["quiet"], 0.8 * quiet);
  EXPECT_GT(servers.refused["loud"], 1000);
}

TEST(Picker, InventedTenantsLeaveOthersTheirShare) {
  Servers servers({{"a", 0.010}});
  int quiet = 0;
  for (int i = 0; i < 5000; ++i) {
    const double now = i * 0.002;
    servers.ask(now, 0.1, "invented " + std::to_string(i));
    if (i % 20 == 0) servers.ask(now, 0.1, "quiet"), ++quiet;  // a quarter of what the server does
  }
  servers.until(100);
  EXPECT_GE(servers.on_time["quiet"], 0.95 * quiet);
}

// Each has too few of the answers for a share of its own; and who has had one loses it again.
TEST(Picker, ManySmallTenantsShareOne) {
  Servers servers({{"a", 0.010}});
  for (double now = 0; now < 2; now += 0.02) servers.ask(now, 0.1, "was large");
  int loud = 0;
  for (int i = 0; i < 5000; ++i) {
    const double now = 20 + i * 0.002;
    servers.ask(now, 0.1, "small " + std::to_string(i % 499));
    if (i % 10 == 0) servers.ask(now, 0.1, "loud"), ++loud;
    if (i % 500 == 0) servers.ask(now, 0.1, "was large");
  }
  servers.until(100);
  EXPECT_GE(servers.on_time["loud"], 0.8 * loud);
  int small = 0;
  for (int i = 0; i < 499; ++i) small += servers.on_time["small " + std::to_string(i)];
  EXPECT_GE(small, 300);
}

TEST(Picker, WhoFailsGetsFewUntilItAnswers) {
  Picker picker;
  picker.set_servers({"bad", "good"});
  std::map<std::string, int> sent;
  for (int i = 0; i < 1000; ++i) {
    const double now = i * 0.01;
    const auto verdict = picker.pick(at(now), {"model", "", Duration::millis(100), {}});
    ASSERT_FALSE(verdict.refused);
    ++sent[verdict.server];
    const bool bad = verdict.server == "bad";  // and at once
    picker.ended(verdict.ticket, at(now + (bad ? 0.0001 : 0.005)),
                 bad ? Picker::End::kFailed : Picker::End::kAnswered);
  }
  EXPECT_LT(sent["bad"], 50);
  EXPECT_GT(sent["good"], 900);
}

TEST(Picker, AServerThatHangsIsLeftAlone) {
  Servers servers({{"a", 0.010}, {"b", 0.010}});
  for (double now = 0; now < 2; now += 0.01) servers.ask(now, 0.1);
  servers.until(10);
  const int before = servers.sent["a"];
  servers.service["a"] = 1000;
  for (double now = 10; now < 12; now += 0.012) servers.ask(now, 0.1);
  EXPECT_LT(servers.sent["a"] - before, 8);
  EXPECT_LT(servers.refused[""], 8);
}

// Two hiccups, one after the other, teach that each server is slow.
TEST(Picker, AHiccupIsForgotten) {
  Servers servers({{"a", 0.010}, {"b", 0.010}});
  for (double now = 0; now < 2; now += 0.01) servers.ask(now, 0.1);
  for (const char* name : {"b", "a"}) {
    servers.service[name] = 0.4;
    for (double now = 2; now < 3; now += 0.0083) servers.ask(now, 0.1);
    servers.service[name] = 0.010;
  }
  servers.until(1000);
  servers.free.clear();
  servers.sent.clear();
  servers.refused.clear();
  int asked = 0;
  for (double now = 1000; now < 1020; now += 0.0067, ++asked) servers.ask(now, 0.1);  // 0.75
  EXPECT_LT(servers.refused[""], asked / 20);
  EXPECT_GT(std::min(servers.sent["a"], servers.sent["b"]), asked / 3);
}

TEST(Picker, ARequestThatNeverEndsHoldsUpNobody) {
  Servers servers({{"a", 0.010}});
  for (double now = 0; now < 2; now += 0.02) servers.ask(now, 0.1);
  servers.until(10);
  const auto open = servers.picker.pick(at(10), {"model", "", Duration::millis(100), {}});
  ASSERT_FALSE(open.refused);  // whose client sends no more
  for (double now = 20; now < 40; now += 0.02) servers.ask(now, 0.1);
  servers.until(100);
  EXPECT_LT(servers.refused[""], 10);
  EXPECT_EQ(servers.late, 0);
  servers.picker.ended(open.ticket, at(100), Picker::End::kGone);
  EXPECT_EQ(servers.picker.under_way(), 0u);
}

TEST(Picker, EndlessRequestsOfAStrangerCostOthersLittle) {
  Servers servers({{"a", 0.005}, {"b", 0.005}});
  int honest = 0;
  double stranger = 1;
  for (double now = 0; now < 10; now += 0.05, ++honest) {
    servers.ask(now, 0.1, "honest");
    for (; stranger < now; stranger += 0.005) {
      servers.until(stranger);
      servers.picker.pick(at(stranger), {"model", "stranger", Duration::millis(100), {}});
    }
  }
  servers.until(100);
  EXPECT_GE(servers.on_time["honest"], 0.98 * honest);
}

// Sixteen clients of which each asks as soon as it is answered, which takes far longer than others'
// answers, as where they send slowly. Returns how many of the honest one's 160 requests were sent.
int sent_beside_slow_clients(bool with_paths, bool with_names, uint64_t seed) {
  Picker picker;
  picker.set_servers({"a", "b"});
  Random random(seed);
  struct Event {
    double at;
    uint64_t ticket;  // that is answered; 0: one is asked for
    bool is_honest;
    bool operator<(const Event& other) const { return at > other.at; }
  };
  std::priority_queue<Event> events;
  for (int i = 0; i < 80; ++i) events.push({0.05 * i, 0, true});
  for (int i = 0; i < 160; ++i) events.push({5 + 0.05 * i, 0, true});
  for (int i = 0; i < 16; ++i) events.push({4 + 0.01 * i, 0, false});
  int sent = 0, asked = 0;
  for (; !events.empty() && events.top().at < 13;) {
    const Event event = events.top();
    events.pop();
    const auto next = [&](double seconds, uint64_t ticket) {
      events.push({event.at + seconds * (0.5 + random.uniform()), ticket, event.is_honest});
    };
    if (event.ticket != 0) {
      picker.ended(event.ticket, at(event.at), Picker::End::kAnswered);
      if (!event.is_honest) next(0.01, 0);
      continue;
    }
    const std::string number = std::to_string(++asked);
    const auto verdict =
        picker.pick(at(event.at), {!event.is_honest && with_paths ? number : "model",
                                   event.is_honest ? "honest"
                                   : with_names    ? number
                                                   : "stranger",
                                   Duration::millis(100),
                                   {}});
    if (!verdict.refused) {
      next(event.is_honest ? 0.006 : 0.08, verdict.ticket);
      if (event.is_honest && event.at >= 5) ++sent;
    } else if (!event.is_honest) {
      next(0.02, 0);
    }
  }
  return sent;
}

TEST(Picker, SlowClientsOfAStrangerCostOthersNothing) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_GE(sent_beside_slow_clients(true, false, seed), 157) << seed;
    EXPECT_GE(sent_beside_slow_clients(false, true, seed), 157) << seed;
  }
}

// How long a service's requests take is learned, whatever others were invented before.
TEST(Picker, InventedServicesAreForgotten) {
  Picker picker;
  picker.set_servers({"a"});
  double now = 0;
  const auto ask = [&](const std::string& service, double seconds) {
    const auto verdict = picker.pick(at(now), {service, "", Duration::seconds(1), {}});
    picker.ended(verdict.ticket, at(now + seconds), Picker::End::kAnswered);
    now += 1;
    return verdict.expected.seconds();
  };
  for (int i = 0; i < 5000; ++i) ask("invented " + std::to_string(i), 0.02);
  for (int i = 0; i < 200; ++i) ask("short", 0.004), ask("long", 0.04);
  const double brief = ask("short", 0.004);
  EXPECT_GT(ask("long", 0.04), 4 * brief);
}

TEST(Picker, AServerThatHangsAloneIsTriedAgain) {
  Servers servers({{"a", 0.010}});
  for (double now = 0; now < 2; now += 0.01) servers.ask(now, 0.1);
  servers.until(10);
  const int before = servers.sent["a"];
  servers.service["a"] = 1000;
  for (double now = 10; now < 20; now += 0.01) servers.ask(now, 0.1);
  EXPECT_GE(servers.sent["a"] - before, 8);
  EXPECT_LE(servers.sent["a"] - before, 20);
}

TEST(Picker, WhoIsRefusedWithMuchTimeDoesNotSayThatAllTakeAsLong) {
  Servers servers({{"a", 0.010}});
  for (double now = 0; now < 2; now += 0.02) servers.ask(now, 0.1);
  servers.until(10);
  const auto patient = servers.picker.pick(at(10), {"model", "", Duration::seconds(100'000), {}});
  servers.picker.ended(patient.ticket, at(10.001), Picker::End::kRefused);
  servers.ask(20, 0.1);
  servers.ask(20, 0.1);
  EXPECT_EQ(servers.refused[""], 0);
}

// A client tells the gateway that it has much time, and the server that it has none.
TEST(Picker, RefusalsThatAClientProvokesAgainAndAgainDoNotAddUp) {
  Servers servers({{"a", 0.010}});
  for (double now = 0; now < 2; now += 0.02) servers.ask(now, 0.1);
  servers.until(10);
  for (double now = 10; now < 14; now += 0.01) {
    const auto hasty =
        servers.picker.pick(at(now), {"model", "hasty", Duration::seconds(1000), {}});
    servers.picker.ended(hasty.ticket, at(now + 0.001), Picker::End::kRefused);
  }
  for (int i = 0; i < 3; ++i) servers.ask(20, 0.1);
  EXPECT_EQ(servers.refused[""], 0);
}

TEST(Picker, RefusalsThatAClientProvokesLeaveOthersBothServers) {
  Servers servers({{"a", 0.010}, {"b", 0.010}});
  for (double now = 0; now < 2; now += 0.02) servers.ask(now, 0.1);
  servers.until(10);
  for (int i = 0; i < 2; ++i) {  // and one that does not end, on each
    servers.picker.pick(at(10), {"model", "slow", Duration::seconds(1000), {}});
  }
  int asked = 0;
  for (double now = 10; now < 20; now += 1.0 / 140, ++asked) {  // 1.4 of what one does
    servers.ask(now, 0.1, "honest");
    if (asked % 28 != 0) continue;
    const auto hasty = servers.picker.pick(at(now), {"model", "hasty", Duration::seconds(9), {}});
    servers.picker.ended(hasty.ticket, at(now + 0.001), Picker::End::kRefused);
  }
  servers.until(100);
  EXPECT_LE(servers.refused["honest"], 0.02 * asked);
  EXPECT_LE(servers.late, 0.02 * asked);
}

TEST(Picker, AServerThatOnlyRefusesGetsLittle) {
  Servers servers({{"a", 0.010}, {"b", 0.010}});
  for (double now = 0; now < 2; now += 0.0125) servers.ask(now, 0.1);
  servers.until(10);
  int refused = 0;
  for (double now = 10; now < 20; now += 0.0125) {  // 0.8 of what the other one does
    servers.until(now);
    const auto verdict = servers.picker.pick(at(now), {"model", "", Duration::millis(100), {}});
    if (verdict.server == "b") {
      servers.picker.ended(verdict.ticket, at(now), Picker::End::kRefused);
      ++refused;
    } else if (!verdict.refused) {
      double& free_at = servers.free["a"];
      free_at = std::max(free_at, now) + 0.010;
      servers.answers.push({free_at, verdict.ticket, now + 0.1, "a", ""});
    }
  }
  EXPECT_LE(refused, 40);
}

TEST(Picker, WhoIsRefusedWithLittleTimeDoesNotSayThatAllAreFast) {
  Servers servers({{"a", 0.010}});
  for (double now = 0; now < 2; now += 0.02) servers.ask(now, 0.1);
  servers.until(10);
  for (double now = 10; now < 12; now += 0.01) {
    const auto hasty = servers.picker.pick(at(now), {"model", "hasty", Duration::millis(1), {}});
    if (hasty.refused) continue;
    servers.picker.ended(hasty.ticket, at(now + 0.001), Picker::End::kRefused);
  }
  for (int i = 0; i < 50; ++i) servers.ask(20, 0.1);
  EXPECT_GE(servers.refused[""], 35);  // there is time for ten
}

// Whatever is late, an answer costs no more for it: looking at all that is late at each of these
// would take 20 billion steps.
TEST(Picker, AnswersInTheOrderOfLateRequestsAreCheap) {
  constexpr int kRequests = 200'000;
  Picker picker;
  picker.set_servers({"a"});
  const Picker::Ask ask{.service = "s", .tenant = "t", .budget = Duration::seconds(1'000'000)};
  picker.ended(picker.pick(at(0), ask).ticket, at(0.01), Picker::End::kAnswered);
  std::vector<uint64_t> tickets;
  for (int i = 0; i < kRequests; ++i) tickets.push_back(picker.pick(at(1), ask).ticket);
  for (const uint64_t ticket : tickets) picker.ended(ticket, at(500'000), Picker::End::kAnswered);
  EXPECT_EQ(picker.under_way(), 0u);
  EXPECT_FALSE(picker.pick(at(500'001), ask).refused.has_value());
}

TEST(Picker, SaysWhyItRefuses) {
  Picker picker;
  const Picker::Ask ask{"model", "", Duration::millis(50), {}};
  EXPECT_EQ(picker.pick(at(0), ask).refused, Picker::Refusal::kNobody);
  picker.set_servers({"a", "b"});
  EXPECT_EQ(picker.pick(at(0), {"model", "", Duration::millis(50), {"c"}}).refused,
            Picker::Refusal::kNobody);
  EXPECT_EQ(picker.pick(at(0), {"model", "", Duration::millis(50), {"b"}}).server, "b");
  picker.set_servers({"a"});
  const auto first = picker.pick(at(0), ask);
  EXPECT_EQ(first.server, "a");
  picker.ended(first.ticket, at(0.2), Picker::End::kAnswered);
  EXPECT_EQ(picker.pick(at(1), ask).server, "a");  // it is idle: tried, however slow it was
  EXPECT_EQ(picker.pick(at(1), ask).refused, Picker::Refusal::kSaturated);
}

TEST(Picker, AServerThatGoesEndsWhatItHas) {
  Picker picker;
  picker.set_servers({"a"});
  const Picker::Ask ask{"model", "", Duration::millis(50), {}};
  const auto sent = picker.pick(at(0), ask);
  picker.set_servers({"b"});
  EXPECT_EQ(picker.servers(), std::vector<std::string>{"b"});
  EXPECT_EQ(picker.pick(at(0), ask).server, "b");
  picker.ended(sent.ticket, at(0.01), Picker::End::kAnswered);
  picker.ended(sent.ticket, at(0.01), Picker::End::kAnswered);  // twice is once
  EXPECT_EQ(picker.under_way(), 1u);
}

}  // namespace
}  // namespace fermata::pick
