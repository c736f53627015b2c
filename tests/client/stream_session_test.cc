// A client's session by hand and over an emulated link, in virtual time.
#include "client/stream_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

namespace fermata::client {
namespace {

constexpr Duration kSlo = Duration::millis(100);

Time at(double seconds) { return Time::from_nanos(Duration::from_seconds(seconds).nanos()); }

Told told(uint32_t side, Duration in_server = {}, Duration shift = {}) {
  return {.input_size = side, .unmapped = side == 0, .shift = shift, .in_server = in_server};
}

// One that knows its round trip, 4 ms, and what to send.
StreamSession ready(uint32_t side = 64, double rate = 10) {
  StreamSession session(kSlo, rate);
  session.answered(session.sent_hello(200, at(-0.5)), told(side), at(-0.3));  // with connecting
  EXPECT_TRUE(session.wants_hello(at(-0.2)));
  session.answered(session.sent_hello(200, at(0)), told(side), at(0.004));
  return session;
}

TEST(StreamSession, SendsNothingBeforeTheServiceHasToldASize) {
  StreamSession session(kSlo, 10);
  EXPECT_FALSE(session.told());
  EXPECT_FALSE(session.side(at(1)));
  EXPECT_EQ(ready().side(at(1)), 64);
}

TEST(StreamSession, MeasuresTransfersWithoutTheServersTimeAndTheRoundTrip) {
  StreamSession session = ready();
  const uint64_t id = session.sent_frame(7, 64, 12'500, at(1));
  const auto ended = session.answered(id, told(64, Duration::millis(20)), at(1.034));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->tag, 7);
  EXPECT_EQ(session.round_trip(), Duration::millis(4));
  EXPECT_NEAR(*session.mbps(at(1.1)), 10, 1e-6);
}

TEST(StreamSession, CountsATransferBehindAnotherFromTheEndOfThat) {
  StreamSession session = ready(64, 100);
  const uint64_t first = session.sent_frame(0, 64, 12'500, at(1));
  const uint64_t second = session.sent_frame(1, 64, 12'500, at(1.001));
  session.answered(first, told(64), at(1.014));
  session.answered(second, told(64), at(1.024));
  EXPECT_NEAR(*session.mbps(at(1.1)), 10, 1e-6);
}

TEST(StreamSession, AnAcknowledgementTellsOfTheLinkAheadOfTheReply) {
  StreamSession session = ready(64, 100);
  const uint64_t id = session.sent_frame(0, 64, 12'500, at(1));
  session.acknowledged(id, Duration::millis(1), at(1.015));
  EXPECT_NEAR(*session.mbps(at(1.02)), 10, 1e-6);
  EXPECT_TRUE(session.side(at(1.02))) << "the link is free, though the frame has no answer";
  session.acknowledged(id, Duration::millis(1), at(1.5));
  ASSERT_TRUE(session.answered(id, told(64, Duration::millis(900)), at(1.9)));
  EXPECT_NEAR(*session.mbps(at(1.9)), 10, 1e-6) << "once";
}

TEST(StreamSession, DropsWhatWouldWaitForFramesUnderWay) {
  StreamSession session = ready(64, 100);
  const uint64_t first = session.sent_frame(0, 64, 12'500, at(1));
  EXPECT_FALSE(session.side(at(1.001))) << "nothing is known of the link yet";
  session.answered(first, told(64), at(1.014));  // 10 Mbit/s
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(session.side(at(1.02))) << i;
    session.sent_frame(i, 64, 12'500, at(1.02));
  }
  EXPECT_TRUE(session.side(at(1.02)));
  session.sent_frame(9, 64, 12'500, at(1.02));
  EXPECT_FALSE(session.side(at(1.02))) << "60 ms of frames stand before it";
}

TEST(StreamSession, BacksOffToTheSizeThatTheLinkBears) {
  StreamSession session = ready(64);
  session.answered(session.sent_frame(0, 32, 5'000, at(1)), told(128), at(1.05));
  EXPECT_EQ(session.side(at(1.1)), 128) << "how large it is shows when it is sent";
  session.answered(session.sent_frame(1, 128, 125'000, at(1.1)), told(128), at(2.1));
  EXPECT_EQ(session.side(at(2.2)), 32);
}

TEST(StreamSession, ShiftsTheNextFrameOnceByAtMostHalfAPeriod) {
  StreamSession session = ready();
  EXPECT_EQ(session.due(at(1)), at(1));
  session.answered(session.sent_frame(0, 64, 500, at(1)), told(64, {}, Duration::millis(70)),
                   at(1.01));
  session.taken();
  EXPECT_EQ(session.due(at(1.02)), at(1.15));
  session.taken();
  EXPECT_EQ(session.due(at(1.16)), at(1.25));
  EXPECT_EQ(session.due(at(9)), at(9)) << "what was missed is not made up for";
}

TEST(StreamSession, RegistersAgainOnANewConnectionAndSaysWhatIsLost) {
  StreamSession session = ready();
  EXPECT_FALSE(session.wants_hello(at(0.5)));
  EXPECT_TRUE(session.wants_hello(at(1)));
  session.sent_frame(3, 64, 500, at(0.1));
  const auto lost = session.lost();
  ASSERT_EQ(lost.size(), 1);
  EXPECT_EQ(lost[0].tag, 3);
  EXPECT_TRUE(session.wants_hello(at(0.2)));
  EXPECT_TRUE(session.side(at(0.2)));
}

TEST(StreamSession, AnUnmappedClientGoesOnMeasuringItsBandwidth) {
  StreamSession session = ready(0);
  EXPECT_TRUE(session.unmapped());
  EXPECT_FALSE(session.side(at(1)));
  ASSERT_GT(session.padding(at(1)), 0);
  const uint64_t bytes = session.padding(at(1)) + 200;
  const uint64_t id = session.sent_hello(bytes, at(1));
  session.answered(id, told(64), at(1.004 + static_cast<double>(bytes) * 8e-6 / 10));
  EXPECT_NEAR(*session.mbps(at(1.1)), 10, 1e-6);
  EXPECT_EQ(session.round_trip(), Duration::millis(4));
  EXPECT_EQ(session.padding(at(1.2)), 0);
}

// Frames of one packet pass what shapes the link at once. A larger hello tells.
TEST(StreamSession, SmallFramesTellLittleSoALargerHelloIsSentNowAndThen) {
  StreamSession session = ready();
  session.answered(session.sent_frame(0, 64, 1000, at(0.1)), told(64), at(0.105));
  EXPECT_NEAR(*session.mbps(at(0.2)), 8, 1e-6) << "as far as that tells";
  const uint64_t second = session.sent_frame(1, 64, 1000, at(1.2));
  EXPECT_FALSE(session.wants_hello(at(1.201))) << "the link is not free";
  session.acknowledged(second, Duration(), at(1.205));
  ASSERT_TRUE(session.wants_hello(at(1.206)));
  ASSERT_GT(session.padding(at(1.206)), 6000);
  const uint64_t probe = session.sent_hello(8200, at(1.21));
  session.answered(probe, told(64), at(1.21 + 0.004 + 0.0656));  // 1 Mbit/s
  EXPECT_NEAR(*session.mbps(at(1.3)), 1, 1e-3);
  EXPECT_EQ(session.padding(at(2.3)), 0);
  session.answered(session.sent_frame(2, 64, 1000, at(4)), told(64), at(4.005));
  EXPECT_NEAR(*session.mbps(at(4.1)), 1, 1e-3) << "a small one makes nothing faster";
  EXPECT_GT(session.padding(at(4.3)), 0);
  session.answered(session.sent_frame(3, 64, 1000, at(6)), told(64), at(6.036));
  EXPECT_NEAR(*session.mbps(at(6.1)), 0.25, 1e-3) << "but slower";
}

// A link of some rate, one message after another, before a server that takes 5 ms for each.
class Link {
 public:
  using Rate = std::function<double(double)>;  // Mbit/s at a second
  explicit Link(Rate rate) : rate_(std::move(rate)) {}

  // When the answer to a message that leaves now is there. In steps of 0.1 ms.
  double answered(uint64_t bytes, double now) {
    double end = std::max(now, free_at_);
    for (double left = static_cast<double>(bytes) * 8e-6; left > 0; end += 1e-4) {
      left -= rate_(end) * 1e-4;
    }
    free_at_ = end;
    return end + kWay + kServer;
  }
  static constexpr double kWay = 0.004, kServer = 0.005;

 private:
  const Rate rate_;
  double free_at_ = 0;
};

struct Streamed {
  struct Frame {
    double sent, latency;
  };
  std::vector<Frame> frames;
  uint64_t dropped = 0;
  std::vector<double> estimates;  // over the rate at that time
};

// `seconds` of a client at 25 frames a second whose frames have as many bytes as their sides say.
Streamed streamed(const Link::Rate& rate, double seconds) {
  StreamSession session(kSlo, 25);
  Link link(rate);
  Streamed done;
  std::multimap<double, uint64_t> coming;
  const auto take_until = [&](double now) {
    while (!coming.empty() && coming.begin()->first <= now) {
      const auto [when, id] = *coming.begin();
      coming.erase(coming.begin());
      const auto ended =
          session.answered(id, told(160, Duration::from_seconds(Link::kServer)), at(when));
      if (!ended) continue;
      const double sent = (ended->sent - Time()).seconds();
      done.frames.push_back({sent, when - sent});
    }
  };
  for (double now = 0; now < seconds; now += 0.04) {
    take_until(now);
    if (session.wants_hello(at(now))) {
      coming.emplace(link.answered(300, now), session.sent_hello(300, at(now)));
    }
    const auto side = session.side(at(now));
    if (!side) {
      ++done.dropped;
      continue;
    }
    const uint64_t bytes = *side * uint64_t{70};
    coming.emplace(link.answered(bytes, now), session.sent_frame(0, *side, bytes, at(now)));
    if (now > 2) done.estimates.push_back(*session.mbps(at(now)) / rate(now));
  }
  take_until(1e9);
  return done;
}

TEST(StreamSession, TheEstimateIsWithin15PercentAtTheMedian) {
  const std::vector<Link::Rate> rates = {
      [](double) { return 8.0; }, [](double t) { return 5 + 4 * std::sin(t / 3); },
      [](double t) { return std::fmod(t, 10) < 5 ? 4.0 : 16.0; }};
  for (const Link::Rate& rate : rates) {
    Streamed done = streamed(rate, 60);
    ASSERT_GT(done.estimates.size(), 1000);
    for (double& e : done.estimates) e = std::abs(e - 1);
    std::sort(done.estimates.begin(), done.estimates.end());
    EXPECT_LT(done.estimates[done.estimates.size() / 2], 0.15);
  }
}

TEST(StreamSession, AStallOfFiveSecondsLeavesNoDelayOneSecondLater) {
  const Streamed done = streamed([](double t) { return t >= 10 && t < 15 ? 1e-9 : 10.0; }, 20);
  uint64_t later = 0;
  for (const Streamed::Frame& frame : done.frames) {
    if (frame.sent >= 9.9 && frame.sent < 16) continue;
    EXPECT_LT(frame.latency, kSlo.seconds()) << frame.sent;
    ++later;
  }
  EXPECT_GT(later, 300) << "and frames are sent again";
  EXPECT_GT(done.dropped, 100);
}

}  // namespace
}  // namespace fermata::client
