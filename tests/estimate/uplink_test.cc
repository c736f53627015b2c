#include "estimate/uplink.h"

#include <gtest/gtest.h>

namespace fermata::estimate {
namespace {

Time uplink_at(double seconds) { return Time() + Duration::from_seconds(seconds); }

constexpr Duration kSlo = Duration::millis(100);
const std::vector<uint64_t> kSizes = {1'000, 10'000, 40'000};

// Five frames of 40 kB over 10 Mbit/s, the last acknowledged at 0.432 s.
Uplink ten_mbps() {
  Uplink link;
  for (int i = 0; i < 5; ++i) {
    link.sent(40'000, uplink_at(i / 10.0));
    link.acknowledged(Duration(), uplink_at(i / 10.0 + 0.032));
  }
  return link;
}

TEST(Uplink, OneFrameTellsOfALinkThatNobodyKnows) {
  Uplink link;
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0)), 2);
  link.sent(40'000, uplink_at(0));
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.1)), std::nullopt);
  link.acknowledged(Duration::millis(3), uplink_at(0.035));
  EXPECT_NEAR(*link.mbps(uplink_at(0.04)), 10, 1e-6);
}

TEST(Uplink, ChoosesWhatIsAnsweredInTime) {
  Uplink link = ten_mbps();
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.5)), 2);
  EXPECT_EQ(link.choose(kSizes, 10, Duration::millis(30), uplink_at(0.5)),
            1);                                                  // 32 ms are too long
  EXPECT_EQ(link.choose(kSizes, 100, kSlo, uplink_at(0.5)), 1);  // 100 a second need 32 Mbit/s
  for (int i = 0; i < 200; ++i) link.answered(Duration::millis(90));
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.5)), 1);  // 10 ms are left
}

// What should have been acknowledged by now tells that the link is slower, and what would have to
// wait for half of its objective is not sent.
TEST(Uplink, ReactsBeforeTheAcknowledgement) {
  Uplink link = ten_mbps();
  link.sent(40'000, uplink_at(0.5));
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.52)), 2);
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.65)), 1);
  link.sent(40'000, uplink_at(0.65));
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.66)), std::nullopt);
  link.lost();
  EXPECT_EQ(link.choose(kSizes, 10, kSlo, uplink_at(0.66)), 2);
}

// Two frames that were sent at once: the second could not leave before the first had.
TEST(Uplink, ATransferBehindAnotherCountsFromItsEnd) {
  Uplink link;
  link.sent(40'000, uplink_at(0));
  link.sent(40'000, uplink_at(0.001));
  link.acknowledged(Duration(), uplink_at(0.032));
  link.acknowledged(Duration(), uplink_at(0.064));
  EXPECT_NEAR(*link.mbps(uplink_at(0.1)), 10, 1e-6);
  link.acknowledged(Duration(), uplink_at(0.2));  // of nothing
  EXPECT_NEAR(*link.mbps(uplink_at(0.2)), 10, 1e-6);
}

}  // namespace
}  // namespace fermata::estimate
