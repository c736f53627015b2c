#include "cluster/wire/link_delay.h"

#include <gtest/gtest.h>

namespace fermata::cluster {
namespace {

constexpr uint64_t kBytes = 100'000;

TEST(LinkDelay, ToldOfNothingItBoundsNothing) { EXPECT_EQ(LinkDelay().bound()(1e6), Duration()); }

TEST(LinkDelay, TheWayOfMessagesAndThatOfBytesAreToldApart) {
  LinkDelay link;
  Time now;
  for (int i = 0; i < 200; ++i) {
    now = now + Duration::millis(1);
    link.echo(Duration::micros(200), now);
    link.batch(Duration::micros(1200), kBytes, now);
  }
  const engine::LinkBound bound = link.bound();
  EXPECT_NEAR(bound.control.micros(), 200, 1);
  EXPECT_NEAR(bound.nanos_per_byte, 10, 0.1);
  EXPECT_NEAR(bound(2 * kBytes).micros(), 2200, 20);
}

// 99 of 100: what happens once in ten batches is within it.
TEST(LinkDelay, ItIsABoundAndNoMean) {
  LinkDelay link;
  Time now;
  for (int i = 0; i < 2000; ++i) {
    now = now + Duration::millis(1);
    link.echo(Duration::micros(i % 10 == 0 ? 900 : 100), now);
  }
  EXPECT_GT(link.bound().control.micros(), 700);
}

TEST(LinkDelay, AWayThatIsShorterAgainIsSoonKnown) {
  LinkDelay link;
  Time now;
  const auto echo = [&](int times, Duration took) {
    for (int i = 0; i < times; ++i) link.echo(took, now = now + Duration::millis(1));
  };
  echo(200, Duration::millis(50));
  echo(2, Duration::micros(100));
  EXPECT_EQ(link.bound().control, Duration::millis(50));
  echo(126, Duration::micros(100));
  EXPECT_EQ(link.bound().control, Duration::micros(100));
}

TEST(LinkDelay, ABoundThatKeepsDataAwayIsDoubted) {
  LinkDelay link;
  Time now;
  link.batch(Duration::millis(100), kBytes, now);
  const double before = link.bound().nanos_per_byte;
  for (int i = 0; i < 100; ++i) {
    now = now + Duration::millis(100);
    link.echo(Duration::micros(100), now);
  }
  EXPECT_LT(link.bound().nanos_per_byte, before / 2);
}

}  // namespace
}  // namespace fermata::cluster
