// Floods of frames over one connection of gRPC.
#include "serve/grpc/frame_watch.h"

#include <gtest/gtest.h>

#include <string>

namespace fermata::serve {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

enum Kind : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kUpdate = 8,
  kMore = 9
};
constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kAcknowledged = 1;

steady_clock::time_point now;
steady_clock::time_point clock_of_test() { return now; }

std::string frame(Kind kind, uint8_t flags, size_t body) {
  std::string text = {char(body >> 16), char(body >> 8), char(body), char(kind), char(flags)};
  return text + std::string(4 + body, '\1');
}

// How many frames until it is a flood; `most` where it is none.
size_t frames_until_flood(FrameWatch& watch, const std::string& each, size_t most) {
  for (size_t i = 0; i < most; ++i) {
    if (!watch.see(each)) return i;
  }
  return most;
}

class FrameWatchTest : public ::testing::Test {
 protected:
  FrameWatchTest() {
    now = {};
    EXPECT_TRUE(watch_.see(std::string(24, 'P')));
  }
  FrameWatch watch_{clock_of_test};
};

TEST_F(FrameWatchTest, LetsCallsPass) {
  std::string calls = frame(kHeaders, 0, 100) + frame(kMore, 0, 20'000) +
                      frame(kMore, kEndHeaders, 10) + frame(kData, 0, 70'000) +
                      frame(kData, kEndStream, 0) + frame(kUpdate, 0, 4);
  watch_.answered();
  EXPECT_TRUE(watch_.see(frame(kSettings, kAcknowledged, 0)));
  EXPECT_EQ(frames_until_flood(watch_, calls, 100'000), 100'000);
}

TEST_F(FrameWatchTest, EndsCallsOfAClientThatSettlesNothing) {
  EXPECT_EQ(frames_until_flood(watch_, frame(kHeaders, kEndHeaders, 10), 100'000),
            FrameWatch::kCallsUnsettled);
}

TEST_F(FrameWatchTest, EndsCallsOfAClientThatAcknowledgesWhatWasNotSent) {
  EXPECT_TRUE(watch_.see(frame(kSettings, kAcknowledged, 0)));
  watch_.answered();
  EXPECT_EQ(frames_until_flood(watch_, frame(kHeaders, kEndHeaders, 10), 100'000),
            FrameWatch::kCallsUnsettled);
}

TEST_F(FrameWatchTest, EndsAHeadThatDoesNotEnd) {
  EXPECT_TRUE(watch_.see(frame(kHeaders, 0, 10)));
  const size_t each = 1000;
  EXPECT_EQ(frames_until_flood(watch_, frame(kMore, 0, each - 9), 100'000),
            FrameWatch::kHeadBytes / each);
}

TEST_F(FrameWatchTest, CountsFramesOfAHeadThatHaveNoBody) {
  EXPECT_TRUE(watch_.see(frame(kHeaders, 0, 0)));
  EXPECT_EQ(frames_until_flood(watch_, frame(kMore, 0, 0), 100'000),
            FrameWatch::kHeadBytes / 9 - 1);
}

TEST_F(FrameWatchTest, EndsResetsAndPingsThatComeTooFast) {
  for (const auto& each : {frame(kHeaders, kEndHeaders, 50) + frame(kReset, 0, 4),
                           frame(kPing, 0, 8), frame(kData, 0, 0)}) {
    FrameWatch watch(clock_of_test);
    watch.answered();
    EXPECT_TRUE(watch.see(std::string(24, 'P') + frame(kSettings, kAcknowledged, 0)));
    EXPECT_EQ(frames_until_flood(watch, each, 100'000), FrameWatch::kFramesASecond - 2);
  }
}

TEST_F(FrameWatchTest, LetsResetsPassThatComeOverTime) {
  for (int second = 0; second < 100; ++second) {
    EXPECT_EQ(frames_until_flood(watch_, frame(kReset, 0, 4), 2000), 2000);
    now += seconds(1);
  }
}

TEST_F(FrameWatchTest, SeesTheSameInPieces) {
  watch_.answered();
  EXPECT_TRUE(watch_.see(frame(kSettings, kAcknowledged, 0)));
  const std::string call = frame(kHeaders, kEndHeaders, 5) + frame(kReset, 0, 4);
  size_t bytes = 0;
  while (watch_.see({&call[bytes % call.size()], 1})) ++bytes;
  EXPECT_EQ(bytes / call.size(), FrameWatch::kFramesASecond - 2);
}

}  // namespace
}  // namespace fermata::serve
