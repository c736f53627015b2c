// Those who want a Lease, each with a clock of its own, before a made-up API server.
#include "cluster/lock/lease.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace fermata::cluster {
namespace {

constexpr Duration kDuration = Duration::seconds(2);

// The server: one Lease, and what may go wrong with a call. Time is what the test says.
struct Server {
  Time now = Time() + Duration::seconds(1000);
  std::optional<LeaseRecord> lease;
  int version = 0;

  std::string renew(LeaseRecord record) {
    record.renewed = fmt::format("the {}th", version + 1);
    return write(std::move(record));
  }
  std::string write(LeaseRecord record) {
    record.version = fmt::format("{}", ++version);
    lease = std::move(record);
    return lease->version;
  }
};

class Link final : public LeaseStore {
 public:
  explicit Link(Server& server) : server_(server) {}
  Duration spent;           // in the turn under way, waiting for answers
  bool cut = false;         // calls take their limit, and have no effect
  bool answer_cut = false;  // writes have their effect, and no answer comes
  int writes = 0;

  absl::StatusOr<LeaseRecord> read(Duration limit) override {
    if (cut) return silent(limit);
    return server_.lease.value_or(LeaseRecord());
  }
  absl::StatusOr<std::string> write(const LeaseRecord& record, Duration limit) override {
    ++writes;
    if (cut) return silent(limit);
    const std::string current = server_.lease ? server_.lease->version : "";
    if (record.version != current) return error(absl::StatusCode::kAborted, "another version");
    std::string version = server_.renew(record);
    if (answer_cut) return silent(limit);
    return version;
  }

 private:
  absl::Status silent(Duration limit) {
    spent += limit;
    return error(absl::StatusCode::kUnavailable, "no answer");
  }
  Server& server_;
};

// A scheduler. Its clock is `ahead` of the server's, and runs at `rate`.
class Candidate {
 public:
  Candidate(Server& server, const std::string& name, Duration ahead = {}, double rate = 1)
      : server_(server),
        link(server),
        ahead_(ahead),
        rate_(rate),
        candidate(link, name, kDuration, [this] { return clock(); },
                  {.held = [this](uint64_t of) { epoch = of; },
                   .lost = [this] { lost_at = now(); },
                   .heard = [this] { return heard; }}) {}

  bool decides() const { return epoch && (!lost_at || server_.now < *lost_at); }
  Time due() const { return due_; }
  void turn() {
    const Duration idle = candidate.turn();
    due_ = idle.is_infinite() ? Time::infinite() : now() + idle.scaled(1 / rate_);
    link.spent = Duration();
  }

 private:
  Time now() const { return server_.now + link.spent; }
  Time clock() const { return Time() + ahead_ + (now() - Time()).scaled(rate_); }
  Server& server_;

 public:
  Link link;

 private:
  const Duration ahead_;
  const double rate_;
  Time due_;

 public:
  LeaseCandidate candidate;
  std::optional<uint64_t> epoch;
  std::optional<Time> lost_at;
  uint64_t heard = 0;
};

class Lease : public testing::Test {
 protected:
  // Everybody does what is due until so much time has passed; one at most decides at any time.
  void run(Duration time, const std::vector<Candidate*>& all) {
    const Time end = server.now + time;
    while (true) {
      Candidate* next = *std::min_element(all.begin(), all.end(),
                                          [](auto* a, auto* b) { return a->due() < b->due(); });
      if (next->due() > end) break;
      server.now = std::max(server.now, next->due());
      next->turn();
      ASSERT_LE(std::count_if(all.begin(), all.end(), [](auto* c) { return c->decides(); }), 1);
    }
    server.now = std::max(server.now, end);
  }

  Server server;
};

TEST_F(Lease, WhoCreatesItDecidesAndOthersStandBy) {
  Candidate a(server, "a"), b(server, "b");
  a.turn();
  b.turn();
  EXPECT_EQ(a.epoch, 1);
  EXPECT_EQ(server.lease->holder, "a");
  EXPECT_EQ(server.lease->duration, kDuration);
  EXPECT_EQ(server.lease->transitions, 0);
  run(Duration::seconds(60), {&a, &b});
  EXPECT_TRUE(a.decides());
  EXPECT_FALSE(b.epoch);
  EXPECT_NEAR(a.link.writes, 120, 2);  // renewed every half second
}

TEST_F(Lease, OfTwoThatCreateItOneHoldsIt) {
  Candidate a(server, "a"), b(server, "b");
  ASSERT_TRUE(b.link.read(kDuration)->version.empty());  // both have seen none
  a.turn();
  EXPECT_TRUE(absl::IsAborted(b.link.write(LeaseRecord{.holder = "b"}, kDuration).status()));
  b.turn();
  EXPECT_TRUE(a.decides());
  EXPECT_FALSE(b.decides());
}

TEST_F(Lease, ADeadHolderIsFollowedWithinTwoAndAHalfSeconds) {
  for (int64_t died_after = 0; died_after < 500; died_after += 20) {
    server.lease.reset();
    Candidate a(server, "a"), b(server, "b");
    a.turn();
    run(Duration::millis(3000 + died_after), {&a, &b});
    const Time died = server.now;
    while (!b.epoch) run(Duration::millis(1), {&b});
    EXPECT_EQ(b.epoch, 2);
    EXPECT_LE(server.now - died, Duration::millis(2510));
    EXPECT_GT(server.now - died, Duration::millis(1490));
  }
}

TEST_F(Lease, WhoGivesItUpIsFollowedWithinAPoll) {
  Candidate a(server, "a"), b(server, "b");
  a.turn();
  run(Duration::seconds(3), {&a, &b});
  a.candidate.give_up();
  EXPECT_EQ(server.lease->holder, "");
  run(Duration::millis(500), {&b});
  EXPECT_EQ(b.epoch, 2);
}

TEST_F(Lease, WhoCannotRenewStopsBeforeAnotherBegins) {
  for (const Duration ahead : {Duration::seconds(-500), Duration(), Duration::seconds(86'400)}) {
    for (const double rate : {0.99, 1.0, 1.01}) {
      server.lease.reset();
      Candidate a(server, "a"), b(server, "b", ahead, rate);
      a.turn();
      run(Duration::seconds(3), {&a, &b});
      a.link.cut = true;
      run(Duration::seconds(6), {&a, &b});
      EXPECT_TRUE(a.lost_at);
      EXPECT_TRUE(b.decides()) << ahead.seconds() << " " << rate;
    }
  }
}

TEST_F(Lease, AServerThatIsAwayForASecondChangesNothing) {
  Candidate a(server, "a"), b(server, "b");
  a.turn();
  run(Duration::seconds(3), {&a, &b});
  a.link.cut = b.link.cut = true;
  run(Duration::millis(900), {&a});
  a.link.cut = b.link.cut = false;
  run(Duration::seconds(10), {&a, &b});
  EXPECT_TRUE(a.decides());
}

TEST_F(Lease, WithoutAServerNobodyDecidesAndAfterwardsOneDoes) {
  Candidate a(server, "a"), b(server, "b");
  a.turn();
  run(Duration::seconds(3), {&a, &b});
  a.link.cut = b.link.cut = true;
  run(Duration::seconds(20), {&a, &b});
  EXPECT_TRUE(a.lost_at);
  EXPECT_FALSE(b.epoch);
  b.link.cut = false;
  run(Duration::seconds(5), {&b});
  EXPECT_EQ(b.epoch, 2);
}

TEST_F(Lease, AWriteWhoseAnswerIsLostIsFoundAgain) {
  Candidate a(server, "a"), b(server, "b");
  a.link.answer_cut = true;
  a.turn();
  EXPECT_FALSE(a.decides());  // it does not know
  a.link.answer_cut = false;
  run(Duration::seconds(1), {&a});
  EXPECT_EQ(a.epoch, 1);
  a.link.answer_cut = true;
  run(Duration::millis(500), {&a});
  a.link.answer_cut = false;
  run(Duration::seconds(10), {&a, &b});
  EXPECT_TRUE(a.decides());
  EXPECT_EQ(server.lease->transitions, 0);
}

TEST_F(Lease, WhatOthersWriteBesideIsNoLossAndNoRenewal) {
  Candidate a(server, "a"), b(server, "b");
  a.turn();
  run(Duration::seconds(3), {&a, &b});
  server.write(*server.lease);  // as a label would
  run(Duration::seconds(3), {&a, &b});
  EXPECT_TRUE(a.decides());
  for (int i = 0; i < 40; ++i) {  // a is dead
    server.write(*server.lease);
    run(Duration::millis(100), {&b});
  }
  EXPECT_EQ(b.epoch, 2);
}

TEST_F(Lease, WhoSeesAnotherHolderStopsAtOnce) {
  Candidate a(server, "a"), b(server, "b");
  a.turn();
  run(Duration::seconds(3), {&a, &b});
  LeaseRecord taken = *server.lease;
  taken.holder = "c";
  ++taken.transitions;
  server.write(taken);
  a.turn();
  EXPECT_TRUE(a.lost_at);
  a.turn();
  EXPECT_EQ(server.lease->holder, "c");  // and leaves it alone
}

TEST_F(Lease, OneThatIsDeletedIsMadeAgainAndEpochsGoOn) {
  Candidate a(server, "a"), b(server, "b");
  server.lease = LeaseRecord{.version = "old", .transitions = 6};
  a.turn();
  EXPECT_EQ(a.epoch, 8);
  run(Duration::seconds(3), {&a, &b});
  server.lease.reset();
  run(Duration::seconds(1), {&a});
  EXPECT_TRUE(a.decides());
  EXPECT_EQ(server.lease->transitions, 7);
  run(Duration::seconds(3), {&a, &b});
  server.lease.reset();
  b.turn();  // first
  EXPECT_EQ(b.epoch, 9);
  a.due();
  a.turn();
  EXPECT_TRUE(a.lost_at);
}

TEST_F(Lease, EpochsGoOnWhereItIsDeletedWithAllThatKnewThem) {
  Candidate a(server, "a"), b(server, "b");
  a.heard = 7;  // of parts
  a.turn();
  EXPECT_EQ(a.epoch, 1);
  run(Duration::seconds(1), {&a});
  EXPECT_EQ(a.epoch, 8);
  a.candidate.give_up();
  b.turn();
  EXPECT_EQ(b.epoch, 9);
}

// What no Lease has room for is not taken, and the lease is kept.
TEST_F(Lease, AnEpochThatIsTooLargeIsNotTaken) {
  Candidate a(server, "a");
  a.turn();
  a.heard = uint64_t{1} << 31;
  run(Duration::seconds(5), {&a});
  EXPECT_TRUE(a.decides());
  EXPECT_EQ(a.epoch, 1);
  EXPECT_EQ(server.lease->transitions, 0);
}

TEST_F(Lease, InAStormOfCutsOneAtMostDecides) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    server.lease.reset();
    std::vector<std::unique_ptr<Candidate>> all;
    std::vector<Candidate*> alive;
    uint64_t latest = 0;
    for (int step = 0; step < 200; ++step) {
      while (alive.size() < 3) {
        all.push_back(std::make_unique<Candidate>(server, fmt::format("{}", all.size()),
                                                  Duration::millis(random() % 100'000),
                                                  0.99 + 0.0001 * (random() % 200)));
        alive.push_back(all.back().get());
      }
      for (Candidate* each : alive) {
        each->link.cut = random() % 4 == 0;
        each->link.answer_cut = random() % 8 == 0;
      }
      run(Duration::millis(random() % 1500), alive);
      ASSERT_FALSE(HasFatalFailure()) << seed;
      for (Candidate* each : alive) {
        if (!each->decides() || *each->epoch == latest) continue;
        EXPECT_GT(*each->epoch, latest) << seed;
        latest = *each->epoch;
      }
      if (random() % 20 == 0) alive.erase(alive.begin());  // it dies
      std::erase_if(alive, [](Candidate* each) { return each->lost_at.has_value(); });
    }
    EXPECT_GT(latest, 5U) << seed;
  }
}

}  // namespace
}  // namespace fermata::cluster
