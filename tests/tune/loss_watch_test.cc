#include "tune/loss_watch.h"

#include <gtest/gtest.h>

#include "by_hand.h"

namespace fermata::tune {
namespace {

// One second more in which a service's requests ended so.
void add(std::deque<Period>& seconds, uint64_t on_time, uint64_t rejected, bool called = true) {
  Period period{.length = Duration::seconds(1)};
  ServiceCounts& counts = period.services["front"];
  counts.outcomes[static_cast<size_t>(engine::Outcome::kOnTime)] = on_time;
  counts.outcomes[static_cast<size_t>(engine::Outcome::kRejectedDeadline)] = rejected;
  counts.came = on_time + rejected;
  counts.called = called;
  seconds.push_back(std::move(period));
}

TEST(LossWatch, AsksWhileAServiceLosesRequests) {
  std::deque<Period> seconds;
  const LossWatch watch;
  EXPECT_FALSE(watch.due(seconds, at_ms(1e3 * 1)));
  add(seconds, 1000, 10);  // not quite more than one in a hundred
  EXPECT_FALSE(watch.due(seconds, at_ms(1e3 * 1)));
  add(seconds, 0, 2);
  EXPECT_TRUE(watch.due(seconds, at_ms(1e3 * 2)));
  for (int i = 0; i < 10; ++i) add(seconds, 1000, 0);  // over
  EXPECT_FALSE(watch.due(seconds, at_ms(1e3 * 12)));
}

TEST(LossWatch, NeitherAFewRequestsNorStagesCount) {
  std::deque<Period> seconds;
  add(seconds, 0, 2);
  EXPECT_FALSE(LossWatch().due(seconds, at_ms(1e3 * 1)));
  add(seconds, 0, 100, false);
  EXPECT_FALSE(LossWatch().due(seconds, at_ms(1e3 * 1)));
}

TEST(LossWatch, AsksTheLessOftenTheLongerAnAnswerTakes) {
  std::deque<Period> seconds;
  add(seconds, 10, 10);
  LossWatch watch;
  watch.answered(at_ms(1e3 * 100), Duration::millis(10));
  EXPECT_FALSE(watch.due(seconds, at_ms(1e3 * 109.9)));
  EXPECT_TRUE(watch.due(seconds, at_ms(1e3 * 110)));
  watch.answered(at_ms(1e3 * 200), Duration::seconds(1));
  EXPECT_FALSE(watch.due(seconds, at_ms(1e3 * 229)));
  EXPECT_TRUE(watch.due(seconds, at_ms(1e3 * 230)));
}

TEST(LossWatch, AsksAboutAMinuteOrAsManyRequestsAsItMay) {
  std::deque<Period> seconds;
  add(seconds, 100, 0);
  EXPECT_EQ(LossWatch::span(seconds), LossWatch::kShortest);
  for (int i = 0; i < 100; ++i) add(seconds, 100, 0);
  EXPECT_EQ(LossWatch::span(seconds), LossWatch::kLongest);
  for (int i = 0; i < 100; ++i) add(seconds, 3000, 0);
  EXPECT_EQ(LossWatch::span(seconds), Duration::seconds(10));
  for (int i = 0; i < 100; ++i) add(seconds, 100'000, 0);
  EXPECT_EQ(LossWatch::span(seconds), LossWatch::kShortest);
}

}  // namespace
}  // namespace fermata::tune
