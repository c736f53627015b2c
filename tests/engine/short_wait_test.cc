#include "engine/threads/short_wait.h"

#include <gtest/gtest.h>

#include "engine/apart/area.h"
#include "engine/apart/run_times.h"

namespace fermata::engine {
namespace {

constexpr Duration kMoment = Duration::nanos(1);

TEST(ShortWait, LooksUntilItIsThere) {
  ShortWait wait;
  EXPECT_TRUE(wait.look(Duration::seconds(60), [] { return true; }));
  int asked = 0;
  EXPECT_FALSE(wait.look(Duration(), [&] { return ++asked > 0; }));
  EXPECT_EQ(asked, 0);
}

// What is never there is looked for less and less.
TEST(ShortWait, LooksInVainPutLooksOff) {
  ShortWait wait;
  uint32_t looks = 0, waits = 0;
  while (looks < 4) {
    bool looked = false;
    EXPECT_FALSE(wait.look(kMoment, [&] {
      looked = true;
      return false;
    }));
    looks += looked ? 1 : 0;
    ++waits;
  }
  EXPECT_EQ(waits, 1u + 2 + 4 + 8);
  EXPECT_EQ(wait.skips(), 15u);
  while (wait.skips() > 0) wait.look(Duration::seconds(60), [] { return true; });
  EXPECT_TRUE(wait.look(Duration::seconds(60), [] { return true; }));
}

TEST(ShortWait, WhoLooksNeedNotBeWoken) {
  using namespace apart;
  const auto area = Area::make(1, 64, 64, Duration::micros(60));
  ASSERT_TRUE(area.ok()) << area.status();
  EXPECT_EQ(area->look(), Duration::micros(60));
  SlotHead& slot = area->slot(0);
  ShortWait wait;
  EXPECT_FALSE(look(asked_of(slot), 0, kMoment, wait));
  EXPECT_EQ(slot.process_looks, 0u);
  tell(asked_of(slot), 7);
  EXPECT_EQ(slot.asked, 7u);
  EXPECT_FALSE(look(asked_of(slot), 0, kMoment, wait));  // the one look that is left out
  EXPECT_TRUE(look(asked_of(slot), 0, Duration::seconds(60), wait));
  EXPECT_EQ(slot.process_looks, 0u);
}

TEST(RunTimes, TellsFromWhenToLook) {
  apart::RunTimes times;
  const Time now = Time::from_nanos(1'000'000);
  const VariantId one(1);
  EXPECT_TRUE(times.look(one, 4, now).from.is_infinite());
  for (int i = 0; i < 100; ++i) times.took(one, 4, Duration::micros(200));
  const auto [from, most] = times.look(one, 4, now);
  EXPECT_GT(from, now + Duration::micros(160));
  EXPECT_LT(from, now + Duration::micros(170));
  EXPECT_LT(most, Duration::micros(80));
  EXPECT_TRUE(times.look(one, 5, now).from.is_infinite());
  for (int i = 0; i < 100; ++i) times.took(one, 5, Duration::micros(4));
  EXPECT_EQ(times.look(one, 5, now).from, now);  // at once
}

TEST(RunTimes, DoesNotLookForWhatCannotBeTold) {
  apart::RunTimes times;
  for (int i = 0; i < 100; ++i) {
    times.took(VariantId(1), 4, Duration::micros(i % 2 == 0 ? 100 : 3000));
  }
  EXPECT_TRUE(times.look(VariantId(1), 4, Time()).from.is_infinite());
}

}  // namespace
}  // namespace fermata::engine
