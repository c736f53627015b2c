#include "estimate/growth.h"

#include <gtest/gtest.h>

#include <random>

namespace fermata::estimate {
namespace {

Time instant(double ms) { return Time() + Duration::from_millis(ms); }

// Four clients that send again once they are answered, all four at a time, 1 ms each: 4 a 5 ms.
TEST(QueueGrowth, NobodyComesWhileAllClientsWait) {
  QueueGrowth growth;
  const double rate = 800;
  double ms = 0;
  Time hope;
  for (int round = 0; round < 50; ++round) {
    for (size_t waiting = 1; waiting <= 4; ++waiting) growth.length(waiting, instant(++ms), rate);
    hope = growth.hope();
    growth.length(0, instant(++ms), rate);
  }
  EXPECT_LE(hope, instant(ms));
  // One leaves: nobody comes while three wait, which soon is known too.
  for (int round = 0; round < 50; ++round) {
    for (size_t waiting = 1; waiting <= 3; ++waiting) growth.length(waiting, instant(++ms), rate);
    hope = growth.hope();
    ms = std::max(ms, (hope - Time()).millis());
    growth.length(0, instant(++ms), rate);
  }
  EXPECT_LE(hope, instant(ms));
  // Two more come.
  for (int round = 0; round < 50; ++round) {
    for (size_t waiting = 1; waiting <= 5; ++waiting) growth.length(waiting, instant(++ms), rate);
    growth.length(0, instant(++ms), rate);
  }
  growth.length(3, instant(++ms), rate);
  EXPECT_GT(growth.hope(), instant(ms + 5));
}

TEST(QueueGrowth, ArrivalsThatDependOnNobodyAreHopedFor) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> gap_ms(1.0);
  QueueGrowth growth;
  const double rate = 1000;
  double ms = 0;
  std::uniform_real_distribution<double> of(0, 1);
  size_t waiting = 0, given_up = 0, hoped = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double next = ms + gap_ms(random);
    if (i > 1000 && ++hoped && growth.hope() < instant(next)) ++given_up;
    ms = next;
    growth.length(++waiting, instant(ms), rate);
    if (of(random) < 0.2) growth.length(waiting = 0, instant(ms), rate);
  }
  EXPECT_LE(static_cast<double>(given_up), 0.001 * static_cast<double>(hoped));
}

TEST(QueueGrowth, WithoutARateThereIsHopeForEver) {
  QueueGrowth growth;
  growth.length(1, instant(1), 0);
  EXPECT_TRUE(growth.hope().is_infinite());
}

}  // namespace
}  // namespace fermata::estimate
