#include "tune/history.h"

#include <gtest/gtest.h>

#include "by_hand.h"

namespace fermata::tune {
namespace {

using engine::Outcome;

// A server that counts what a test says.
struct Counted {
  engine::EngineSnapshot snapshot;
  Counted() {
    snapshot.workers = {{.worker = 0}, {.worker = 1}};
    for (const char* name : {"front", "front/stage"}) {
      snapshot.services.emplace_back().service = name;
    }
  }
  void answer(size_t service, uint64_t on_time, uint64_t late, uint64_t rejected) {
    auto& outcomes = snapshot.services[service].outcomes;
    outcomes[static_cast<size_t>(Outcome::kOnTime)] += on_time;
    outcomes[static_cast<size_t>(Outcome::kLate)] += late;
    outcomes[static_cast<size_t>(Outcome::kRejectedDeadline)] += rejected;
  }
  const engine::EngineSnapshot& after_a_second() {
    snapshot.now = snapshot.now + Duration::seconds(1);
    return snapshot;
  }
};

const std::set<std::string> kCalled = {"front"};

TEST(HistoryTest, CountsWhatWasCountedBetweenTwoSeconds) {
  History history(size_t{1} << 20);
  Counted server;
  server.answer(0, 100, 5, 3);
  EXPECT_EQ(history.add(server.after_a_second(), kCalled, {}, 1), nullptr);
  server.answer(0, 10, 2, 1);
  server.answer(1, 20, 0, 0);
  server.snapshot.workers[0].busy += Duration::millis(500);
  server.snapshot.services[0].batches[4].compute_infer.count = 3;
  const Period* period = history.add(server.after_a_second(), kCalled, {}, 1);
  ASSERT_NE(period, nullptr);
  const ServiceCounts& own = period->services.at("front");
  EXPECT_EQ(own.of(Outcome::kOnTime), 10u);
  EXPECT_EQ(own.of(Outcome::kLate), 2u);
  EXPECT_EQ(own.of(Outcome::kRejectedDeadline), 1u);
  EXPECT_EQ(own.ended(), 13u);
  EXPECT_EQ(own.batches.at(4), 3u);
  EXPECT_DOUBLE_EQ(period->busy, 0.25);
  // Stages of pipelines are shown and not counted twice.
  EXPECT_EQ(period->services.at("front/stage").ended(), 20u);
  EXPECT_EQ(period->pool().ended(), 13u);
}

TEST(HistoryTest, CountsWhatCameAndWaitsAndCountsItOnce) {
  History history(size_t{1} << 20);
  Counted server;
  uint64_t& waiting = server.snapshot.services[0].pending;
  waiting = 4;  // before it was looked at
  history.add(server.after_a_second(), kCalled, {}, 1);
  const auto came = [&](uint64_t waits, uint64_t ends) {
    waiting = waits;
    server.answer(0, ends, 0, 0);
    const auto& services = history.add(server.after_a_second(), kCalled, {}, 1)->services;
    return services.empty() ? 0 : services.at("front").came;
  };
  EXPECT_EQ(came(64, 40), 100u);  // 40 ended while the queue grew by 60
  EXPECT_EQ(came(60, 0), 0u);     // four run
  EXPECT_EQ(came(60, 4), 0u);     // and end
  EXPECT_EQ(came(0, 70), 10u);
  uint64_t sum = 0;
  for (const Period& second : history.seconds()) sum += second.pool().came;
  EXPECT_EQ(sum, 110u);
}

TEST(HistoryTest, LeavesOutServicesThatNobodyCalled) {
  History history(size_t{1} << 20);
  Counted server;
  history.add(server.after_a_second(), kCalled, {}, 1);
  EXPECT_TRUE(history.add(server.after_a_second(), kCalled, {}, 1)->services.empty());
}

TEST(HistoryTest, TenSecondsAreTheSumOfTheirSeconds) {
  History history(size_t{1} << 20);
  Counted server;
  history.add(server.after_a_second(), kCalled, {}, 1);
  for (int i = 0; i < 25; ++i) {
    server.answer(0, 7, 0, 1);
    std::map<std::string, Answers> answers;
    answers["front"].latency.record(Duration::millis(i < 5 ? 10 : 20), 7);
    answers["front"].by_name["small"] = 7;
    history.add(server.after_a_second(), kCalled, std::move(answers), 1);
  }
  ASSERT_EQ(history.coarse().size(), 2u);
  const ServiceCounts& first = history.coarse().front().services.at("front");
  EXPECT_EQ(first.ended(), 80u);
  EXPECT_EQ(first.answered_by.at("small"), 70u);
  EXPECT_NEAR(first.p50.millis(), 10, 0.1);
  EXPECT_NEAR(first.p99.millis(), 20, 0.1);
  EXPECT_EQ(history.coarse().front().length, Duration::seconds(10));
}

TEST(HistoryTest, KeepsFiveMinutesOfSecondsAndNoMoreBytesThanAllowed) {
  Counted server;
  History history(size_t{1} << 20), small(4096);
  for (int i = 0; i < 400; ++i) {
    server.answer(0, 1, 0, 0);
    const engine::EngineSnapshot& now = server.after_a_second();
    history.add(now, kCalled, {}, 1);
    small.add(now, kCalled, {}, 1);
  }
  EXPECT_EQ(history.seconds().size(), History::kSeconds);
  size_t bytes = 0;
  for (const Period& each : small.seconds()) bytes += each.bytes();
  for (const Period& each : small.coarse()) bytes += each.bytes();
  EXPECT_LE(bytes, 4096u);
  EXPECT_EQ(small.seconds().back().at, history.seconds().back().at);
}

}  // namespace
}  // namespace fermata::tune
