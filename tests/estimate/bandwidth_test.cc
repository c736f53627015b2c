#include "estimate/bandwidth.h"

#include <gtest/gtest.h>

namespace fermata::estimate {
namespace {

Time at_s(double seconds) { return Time() + Duration::from_seconds(seconds); }

// Transfers of 10 and of 40 Mbit/s: 2 / (1/10 + 1/40) = 16.
TEST(Bandwidth, IsTheHarmonicMeanOfTheLastSecond) {
  Bandwidth link;
  EXPECT_EQ(link.mbps(at_s(0)), std::nullopt);
  link.echoed(Duration::millis(5));
  link.acknowledged(12'500, Duration::millis(15), at_s(0.1));  // 100 kbit in 10 ms
  EXPECT_NEAR(*link.mbps(at_s(0.1)), 10, 1e-9);
  link.acknowledged(50'000, Duration::millis(15), at_s(0.6));
  EXPECT_NEAR(*link.mbps(at_s(0.6)), 16, 1e-9);
  EXPECT_NEAR(*link.mbps(at_s(1.2)), 40, 1e-9);
  EXPECT_NEAR(*link.mbps(at_s(100)), 40, 1e-9);  // the last one stays
}

// A small transfer of 6 Mbit/s behind a telling one of 10, with and without another in the second.
TEST(Bandwidth, SmallTransfersCountWhereTheyAreHalfAsFastHoweverLongAgo) {
  Bandwidth bandwidth;
  const auto at = [](double s) { return Time() + Duration::from_seconds(s); };
  bandwidth.acknowledged(10'000, Duration::from_millis(8), at(0.1));
  bandwidth.acknowledged(1'500, Duration::from_millis(2), at(0.2));
  EXPECT_NEAR(*bandwidth.mbps(at(0.9)), 10, 1e-9);
  EXPECT_NEAR(*bandwidth.mbps(at(1.5)), 10, 1e-9);
  bandwidth.acknowledged(1'500, Duration::from_millis(4), at(2));
  EXPECT_NEAR(*bandwidth.mbps(at(2.5)), 3, 1e-9);
  EXPECT_NEAR(*bandwidth.mbps(at(3.5)), 3, 1e-9);
}

TEST(Bandwidth, TheSureOneFollowsTheSpread) {
  Bandwidth steady, unsteady;
  for (int i = 0; i < 400; ++i) {
    steady.acknowledged(10'000, Duration::millis(10), at_s(i / 20.0));
    unsteady.acknowledged(10'000, Duration::millis(i % 5 == 0 ? 30 : 10), at_s(i / 20.0));
  }
  EXPECT_NEAR(*steady.sure_mbps(at_s(20)), *steady.mbps(at_s(20)), 0.1);
  EXPECT_LT(*unsteady.sure_mbps(at_s(20)), 0.7 * *unsteady.mbps(at_s(20)));
  unsteady.acknowledged(10'000, Duration::millis(80), at_s(20));
  EXPECT_NEAR(*unsteady.lately_mbps(at_s(20)), 1, 1e-6);
}

TEST(Bandwidth, NetworkTimeIsTransferAndRoundTrip) {
  Bandwidth link;
  EXPECT_EQ(link.network_time(1000, at_s(0)), std::nullopt);
  for (const int64_t ms : {9, 4, 30}) link.echoed(Duration::millis(ms));
  EXPECT_EQ(link.round_trip(), Duration::millis(4));
  link.acknowledged(12'500, Duration::millis(14), at_s(0));
  EXPECT_NEAR(link.network_time(25'000, at_s(0))->millis(), 24, 1e-6);
  for (int i = 0; i < 16; ++i) link.echoed(Duration::millis(8));  // the link has changed
  EXPECT_EQ(link.round_trip(), Duration::millis(8));
}

// Whatever comes back sooner than it can, or later than ever, the mean stays finite.
TEST(Bandwidth, ImpossibleTransfersDoNoHarm) {
  Bandwidth link;
  link.echoed(Duration::millis(5));
  link.acknowledged(1000, Duration::millis(1), at_s(0));
  link.acknowledged(0, Duration::seconds(1000), at_s(0.1));
  EXPECT_GT(*link.mbps(at_s(0.2)), 0);
  EXPECT_LT(*link.mbps(at_s(0.2)), 1);
}

TEST(Bandwidth, BacksOffToWhatTheLinkSustains) {
  const std::vector<uint64_t> sizes = {10'000, 20'000, 40'000};  // 2, 4 and 8 Mbit/s at 25 a second
  EXPECT_EQ(back_off(sizes, 25, 10.0), 2);
  EXPECT_EQ(back_off(sizes, 25, 8.0), 1);
  EXPECT_EQ(back_off(sizes, 25, 0.1), 0);
  EXPECT_EQ(back_off(sizes, 25, std::nullopt), 2);
  EXPECT_EQ(back_off({}, 25, 1.0), 0);
}

}  // namespace
}  // namespace fermata::estimate
