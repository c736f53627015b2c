// Floods of frames over one connection of gRPC.
#include "serve/grpc/frame_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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

std::string frame_of(Kind kind, uint8_t flags, uint8_t stream, const std::string& body) {
  return std::string{char(body.size() >> 16),
                     char(body.size() >> 8),
                     char(body.size()),
                     char(kind),
                     char(flags),
                     0,
                     0,
                     0,
                     char(stream)} +
         body;
}
std::string frame(Kind kind, uint8_t flags, size_t body) {
  return frame_of(kind, flags, 1, std::string(body, '\1'));
}
// The server's setting of how wide windows are.
std::string windows_of(uint32_t bytes) {
  return frame_of(kSettings, 0, 0,
                  {0, 3, 0, 0, 0, 100, 0, 4, char(bytes >> 24), char(bytes >> 16), char(bytes >> 8),
                   char(bytes)});
}
std::string message_of(size_t bytes, size_t of_which) {
  return std::string{0, char(bytes >> 24), char(bytes >> 16), char(bytes >> 8), char(bytes)} +
         std::string(of_which, 'x');
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
    EXPECT_TRUE(watch_.see(std::string(24, 'P')));
    open_wide(watch_);
  }
  // What all calls may send together.
  static void open_wide(FrameWatch& watch) {
    for (int i = 0; i < 16; ++i) watch.sent(frame_of(kUpdate, 0, 0, {0x7f, -1, -1, -1}));
  }
  FrameWatch watch_{clock_of_test};
};

TEST_F(FrameWatchTest, LetsCallsPass) {
  std::string calls = frame(kHeaders, 0, 100) + frame(kMore, 0, 20'000) +
                      frame(kMore, kEndHeaders, 10) + frame(kData, 0, 70'000) +
                      frame(kData, kEndStream, 0) + frame(kUpdate, 0, 4);
  watch_.answered();
  watch_.sent(windows_of(70'000));
  EXPECT_TRUE(watch_.see(frame(kSettings, kAcknowledged, 0)));
  EXPECT_EQ(frames_until_flood(watch_, calls, 100'000), 100'000);
}

// To each frame beyond, gRPC answers with a reset.
TEST_F(FrameWatchTest, EndsDataBeyondTheWindow) {
  const std::string open = frame_of(kHeaders, kEndHeaders, 1, "");
  const std::string data = frame_of(kData, 0, 1, message_of(1'000'000, 1000));
  constexpr size_t kFirst = FrameWatch::kFirstWindow / 1005;
  EXPECT_TRUE(watch_.see(open));
  EXPECT_EQ(frames_until_flood(watch_, data, 1000), kFirst);

  FrameWatch told(clock_of_test);
  EXPECT_TRUE(told.see(std::string(24, 'P') + open));
  told.sent(windows_of(2 * 1005) + windows_of(100 * 1005) + windows_of(1));  // the widest counts
  for (const char byte : frame_of(kUpdate, 0, 1, {0, 0, 0x27, 0x42})) told.sent({&byte, 1});
  told.sent(frame_of(kUpdate, 0, 0, {0, 1, 0, 0}) + frame_of(kUpdate, 0, 3, {0, 1, 0, 0}));
  EXPECT_EQ(frames_until_flood(told, data, 1000), 100 + 0x2742 / 1005);
}

// And that the client has not heard of.
TEST_F(FrameWatchTest, EndsDataBeyondTheWindowThatIsAcknowledged) {
  const std::string open = frame_of(kHeaders, kEndHeaders, 1, "");
  const std::string data = frame_of(kData, 0, 1, message_of(1'000'000, 1000));
  constexpr size_t kFirst = FrameWatch::kFirstWindow / 1005, kMany = 100'000;
  watch_.sent(windows_of(100'000'000));
  watch_.answered();
  EXPECT_TRUE(watch_.see(open));
  EXPECT_EQ(frames_until_flood(watch_, data, kMany), kFirst + FrameWatch::kFramesASecond - 1);

  FrameWatch told(clock_of_test);
  open_wide(told);
  told.sent(windows_of(100'000'000));
  told.answered();
  EXPECT_TRUE(told.see(std::string(24, 'P') + frame_of(kSettings, kAcknowledged, 0, "") + open));
  EXPECT_EQ(frames_until_flood(told, data, kMany), 100'000'000u / 1005);
}

// Together, however wide each call's own is.
TEST_F(FrameWatchTest, EndsDataBeyondTheWindowOfAllCalls) {
  FrameWatch watch(clock_of_test);
  watch.sent(windows_of(1'000'000) + frame_of(kUpdate, 0, 0, {0, 0, 0x10, 0}));
  EXPECT_TRUE(watch.see(std::string(24, 'P') + frame_of(kHeaders, kEndHeaders, 1, "") +
                        frame_of(kHeaders, kEndHeaders, 3, "")));
  const std::string both = frame_of(kData, 0, 1, message_of(1'000'000, 1000)) +
                           frame_of(kData, 0, 3, message_of(1'000'000, 1000));
  EXPECT_EQ(frames_until_flood(watch, both, 1000),
            (FrameWatch::kFirstWindow + 0x1000) / (2 * 1005));
}

// What was on its way when the server ended a call is no flood, unless it is small and goes on.
TEST_F(FrameWatchTest, EndsSmallDataOfCallsThatHaveEnded) {
  EXPECT_EQ(frames_until_flood(watch_, frame_of(kData, 0, 1, std::string(16'384, 'x')), 5000),
            5000u);
  EXPECT_EQ(frames_until_flood(watch_, frame_of(kData, 0, 1, "x"), 5000),
            FrameWatch::kFramesASecond - 1);
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
  for (const auto& each : {frame(kReset, 0, 4), frame(kPing, 0, 8), frame(kData, 0, 0)}) {
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

TEST_F(FrameWatchTest, IsActiveWithCallsAndNotWithPings) {
  const auto begun = now;
  now += seconds(1);
  EXPECT_TRUE(watch_.see(frame(kPing, 0, 8) + frame(kSettings, 0, 0)));
  EXPECT_EQ(watch_.active(), begun);
  EXPECT_FALSE(watch_.waits());
  EXPECT_TRUE(watch_.see(frame(kHeaders, kEndHeaders, 10) +
                         frame_of(kData, kEndStream, 1, message_of(4, 4))));
  EXPECT_EQ(watch_.active(), now);
  EXPECT_TRUE(watch_.waits());
  now += seconds(1);
  watch_.sent(frame(kData, 0, 9));
  EXPECT_EQ(watch_.active(), now);
  EXPECT_TRUE(watch_.waits());
  watch_.sent(frame(kHeaders, kEndHeaders | kEndStream, 3));
  EXPECT_FALSE(watch_.waits());
}

constexpr uint64_t kCall = FrameWatch::kCallHolds, kPiece = FrameWatch::kPieceHolds;

TEST_F(FrameWatchTest, KnowsWhatIsHeldOfMessagesThatAreNotWhole) {
  EXPECT_TRUE(watch_.see(frame_of(kHeaders, kEndHeaders, 1, "head")));
  EXPECT_EQ(watch_.unfinished(), kCall);
  EXPECT_TRUE(watch_.see(frame_of(kData, 0, 1, message_of(1000, 400))));
  EXPECT_EQ(watch_.unfinished(), kCall + kPiece + 405);
  EXPECT_TRUE(watch_.see(frame_of(kData, 0, 1, std::string(600, 'x'))));
  EXPECT_EQ(watch_.unfinished(), 0u);  // who is given it counts it
  const std::string two = message_of(1, 1) + message_of(70'000, 10);
  EXPECT_TRUE(watch_.see(frame_of(kData, 0, 1, two)));
  EXPECT_EQ(watch_.unfinished(), 15u);
  EXPECT_TRUE(watch_.see(frame_of(kReset, 0, 1, "1234")));
  EXPECT_EQ(watch_.unfinished(), 0u);
}

// Nothing of them is sent any more, whatever the server makes of them.
TEST_F(FrameWatchTest, KnowsWhatIsHeldForAClientThatTakesNothing) {
  constexpr uint64_t kFew = FrameWatch::kFewAsked;
  for (uint8_t stream = 1; stream <= kFew + 1; ++stream) {
    EXPECT_TRUE(watch_.see(frame_of(kHeaders, kEndHeaders, stream, "head") +
                           frame_of(kData, kEndStream, stream, message_of(1, 1))));
  }
  EXPECT_EQ(watch_.unread(), 0u);
  EXPECT_FALSE(watch_.has_enough());
  watch_.stuck(true);
  EXPECT_EQ(watch_.unread(), (kFew + 1) * kCall);
  EXPECT_TRUE(watch_.has_enough());
  EXPECT_TRUE(watch_.see(frame_of(kReset, 0, 3, "1234")));
  EXPECT_EQ(watch_.unread(), kFew * kCall);
  EXPECT_FALSE(watch_.has_enough());  // few are read on anyhow
  watch_.stuck(false);
  EXPECT_EQ(watch_.unread(), 0u);
}

TEST_F(FrameWatchTest, ForgetsCallsThatTheServerEnds) {
  for (const auto& end : {frame_of(kReset, 0, 3, "1234"),
                          frame_of(kHeaders, kEndStream | kEndHeaders, 3, "status")}) {
    EXPECT_TRUE(watch_.see(frame_of(kHeaders, kEndHeaders, 3, "head")));
    EXPECT_TRUE(watch_.see(frame_of(kData, 0, 3, message_of(1000, 400))));
    EXPECT_GT(watch_.unfinished(), 400u);
    watch_.sent(frame_of(kSettings, 0, 0, "") + frame_of(kHeaders, kEndHeaders, 3, "first"));
    EXPECT_GT(watch_.unfinished(), 400u);
    watch_.sent(end);
    EXPECT_EQ(watch_.unfinished(), 0u);
    EXPECT_TRUE(watch_.see(frame_of(kData, 0, 3, std::string(600, 'x'))));  // was on its way
    EXPECT_EQ(watch_.unfinished(), 0u);
  }
}

// Calls of which nothing comes but the head.
class SilentCalls : public FrameWatchTest {
 protected:
  // How many heads until it is a flood.
  static size_t heads_until_flood(FrameWatch& watch, size_t most) {
    for (size_t i = 0; i < most; ++i) {
      if (!watch.see(frame_of(kHeaders, kEndHeaders, static_cast<uint8_t>(next_), "")
                         .replace(5, 4,
                                  {char(next_ >> 24), char(next_ >> 16), char(next_ >> 8),
                                   char(next_)}))) {
        return i;
      }
      next_ += 2;
    }
    return most;
  }
  static void settle(FrameWatch& watch) {
    watch.answered();
    EXPECT_TRUE(watch.see(std::string(24, 'P') + frame_of(kSettings, kAcknowledged, 0, "")));
  }
  static inline uint32_t next_ = 1;
};

TEST_F(SilentCalls, AreAFloodAtSome) {
  EXPECT_EQ(heads_until_flood(watch_, 10'000), FrameWatch::kSilentCalls);
  FrameWatch few(clock_of_test, nullptr, 7);
  settle(few);
  EXPECT_EQ(heads_until_flood(few, 10'000), 7u);
}

// A client whose answers nobody takes may have no more; gRPC would wait until it takes them.
TEST_F(FrameWatchTest, EndsCallsBeyondTheMostUntilSomeAreAnswered) {
  constexpr uint8_t kMost = 7;
  FrameWatch watch(clock_of_test, nullptr, kMost);
  watch.answered();
  EXPECT_TRUE(watch.see(std::string(24, 'P') + frame_of(kSettings, kAcknowledged, 0, "")));
  const auto call = [](uint8_t stream) {
    return frame_of(kHeaders, kEndHeaders, stream, "") +
           frame_of(kData, kEndStream, stream, message_of(1, 1));
  };
  for (uint8_t i = 0; i < kMost; ++i) EXPECT_TRUE(watch.see(call(static_cast<uint8_t>(2 * i + 1))));
  watch.sent(frame_of(kHeaders, kEndHeaders | kEndStream, 5, "trailers"));
  EXPECT_TRUE(watch.see(call(2 * kMost + 1)));
  EXPECT_FALSE(watch.see(call(2 * kMost + 3)));
}

TEST_F(SilentCalls, OfAnAddressWithManyAreAFloodAtFew) {
  constexpr int64_t kMost = 2000;
  const auto address = std::make_shared<AddressAccount>(kMost);
  std::vector<std::unique_ptr<FrameWatch>> open;
  const auto more = [&open, &address]() -> FrameWatch& {
    open.push_back(std::make_unique<FrameWatch>(clock_of_test, address));
    settle(*open.back());
    return *open.back();
  };
  FrameWatch& proven = more();
  EXPECT_TRUE(proven.see(frame_of(kHeaders, kEndHeaders, 1, "") +
                         frame_of(kData, kEndStream, 1, message_of(1, 1))));
  for (int64_t all = 0; all <= kMost; all += FrameWatch::kSilentCalls) {
    heads_until_flood(more(), FrameWatch::kSilentCalls);
  }
  EXPECT_EQ(heads_until_flood(more(), 10'000), FrameWatch::kFewFirstCalls);
  EXPECT_EQ(heads_until_flood(proven, 10'000), FrameWatch::kFewCalls);
  open.clear();  // their connections are closed, which has cost something
  EXPECT_EQ(heads_until_flood(more(), 10'000), FrameWatch::kFewFirstCalls);
  now += seconds(10);
  EXPECT_EQ(heads_until_flood(more(), 10'000), FrameWatch::kSilentCalls);
}

// As streams of which only the heads come, each of which makes room for the next.
TEST_F(SilentCalls, ThatTheServerEndsAreAFloodOfTheirAddress) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  constexpr int kEnded = 1 + AddressAccount::kFramesAtOnce / FrameWatch::kWastedCall;
  for (int i = 0; i < kEnded; ++i) {
    FrameWatch watch(clock_of_test, address);
    settle(watch);
    ASSERT_TRUE(watch.see(frame_of(kHeaders, kEndHeaders, 1, "head"))) << i;
    watch.sent(frame_of(kHeaders, kEndStream | kEndHeaders, 1, "status"));
  }
  FrameWatch next(clock_of_test, address);
  settle(next);
  EXPECT_EQ(heads_until_flood(next, 100), FrameWatch::kFewFirstCalls);
  FrameWatch honest(clock_of_test, address);
  settle(honest);
  const std::string call =
      frame_of(kHeaders, kEndHeaders, 1, "") + frame_of(kData, kEndStream, 1, message_of(1, 1));
  EXPECT_EQ(frames_until_flood(honest, call, 1000), 1000u);
  now += seconds(1);
  FrameWatch later(clock_of_test, address);
  settle(later);
  EXPECT_EQ(heads_until_flood(later, 100), 100u);
}

TEST_F(SilentCalls, OfAConnectionThatEndsAreAFloodOfItsAddress) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  const auto open_many = [&address] {
    FrameWatch watch(clock_of_test, address);
    settle(watch);
    return heads_until_flood(watch, 1000);
  };
  EXPECT_EQ(open_many(), 1000u);
  EXPECT_EQ(open_many(), FrameWatch::kFewFirstCalls);
}

// Their client sends nothing and says so.
TEST_F(SilentCalls, ThatEndAreAFloodOfTheirAddress) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  FrameWatch watch(clock_of_test, address);
  settle(watch);
  constexpr int kEnded = 1 + AddressAccount::kFramesAtOnce / FrameWatch::kWastedCall;
  for (int i = 0; i < kEnded; ++i) {
    ASSERT_TRUE(watch.see(frame_of(kHeaders, kEndHeaders | kEndStream, 1, "head"))) << i;
  }
  FrameWatch next(clock_of_test, address);
  settle(next);
  EXPECT_EQ(heads_until_flood(next, 100), FrameWatch::kFewFirstCalls);
}

// Many clients may have one address: what one loses by our hand, or leaves behind after it was
// served as much, costs the others nothing.
TEST_F(SilentCalls, OfAConnectionThatWeEndOrThatWasServedCostNothing) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  constexpr size_t kMany = FrameWatch::kSilentCalls;
  FrameWatch ended(clock_of_test, address);
  settle(ended);
  EXPECT_EQ(heads_until_flood(ended, kMany), kMany);
  ended.forget_calls(true);
  {
    FrameWatch served(clock_of_test, address);
    settle(served);
    for (uint8_t stream = 1; stream < 200; stream += 2) {
      const std::string call = frame_of(kHeaders, kEndHeaders, stream, "") +
                               frame_of(kData, kEndStream, stream, message_of(1, 1));
      for (int again = 0; again < 10; ++again) {
        ASSERT_TRUE(served.see(call));
        served.sent(frame_of(kHeaders, kEndStream | kEndHeaders, stream, "status"));
      }
      ASSERT_TRUE(served.see(call));
    }
  }
  FrameWatch next(clock_of_test, address);
  settle(next);
  EXPECT_EQ(heads_until_flood(next, 100), 100u);
}

// How many whole calls until it is a flood.
size_t ask(FrameWatch& watch, size_t most) {
  for (size_t i = 0; i < most; ++i) {
    const auto stream = static_cast<uint8_t>(2 * i + 1);
    if (!watch.see(frame_of(kHeaders, kEndHeaders, stream, "") +
                   frame_of(kData, kEndStream, stream, message_of(1, 1)))) {
      return i;
    }
  }
  return most;
}

// Calls whose connection is closed before they are answered, and made again, as fast as that goes.
TEST_F(SilentCalls, NobodyWaitsForAreAFloodOfTheirAddress) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  constexpr int kConnections = 1 + AddressAccount::kFramesAtOnce / FrameWatch::kWastedCall / 100;
  for (int i = 0; i < kConnections; ++i) {
    FrameWatch watch(clock_of_test, address);
    settle(watch);
    EXPECT_EQ(ask(watch, 100), 100u) << i;
  }
  FrameWatch next(clock_of_test, address);
  settle(next);
  EXPECT_EQ(ask(next, 100), FrameWatch::kFewAsked + 1);
  FrameWatch honest(clock_of_test, address);  // waits for its answers
  settle(honest);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(ask(honest, 10), 10u) << i;
    for (uint8_t stream = 1; stream < 20; stream += 2) {
      honest.sent(frame_of(kHeaders, kEndStream | kEndHeaders, stream, "status"));
    }
  }
  EXPECT_EQ(ask(honest, 100), FrameWatch::kFewCalls + 1);
}

// Honest clients behind a crowded address, which come again each second.
TEST_F(SilentCalls, OfConnectionsThatEndSinceTheirAddressIsCrowdedDoNotKeepItSo) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  const auto ask_anew = [&address](bool is_answered) {
    FrameWatch watch(clock_of_test, address);
    settle(watch);
    const size_t asked = ask(watch, 100);
    for (uint8_t stream = 1; is_answered && asked == 100 && stream < 200; stream += 2) {
      watch.sent(frame_of(kHeaders, kEndStream | kEndHeaders, stream, "status"));
    }
    return asked;
  };
  while (ask_anew(false) == 100) {
  }
  for (int i = 0; i < 60; ++i) {
    ask_anew(true);
    now += std::chrono::milliseconds(50);
  }
  EXPECT_EQ(ask_anew(true), 100u);
}

// The same where frames that are no calls crowd it: who was served owes little.
TEST_F(SilentCalls, OfServedConnectionsThatEndForTheFramesOfOthersDoNotKeepTheirAddressCrowded) {
  const auto address = std::make_shared<AddressAccount>(100'000);
  const std::string ping = frame(kPing, 0, 8);
  for (int i = 0; i < 60; ++i) {
    FrameWatch watch(clock_of_test, address);
    settle(watch);
    ASSERT_EQ(ask(watch, 1), 1u);
    watch.sent(frame_of(kHeaders, kEndStream | kEndHeaders, 1, "status"));
    ASSERT_LE(ask(watch, 60), 60u);
    frames_until_flood(watch, ping, FrameWatch::kFramesASecond - 100);
    now += std::chrono::milliseconds(50);
  }
  FrameWatch next(clock_of_test, address);
  settle(next);
  EXPECT_EQ(ask(next, 100), 100u);
}

// A call that is given up before it has sent anything has cost more than a ping.
TEST_F(SilentCalls, ThatAreResetAreAFloodSooner) {
  FrameWatch watch(clock_of_test);
  settle(watch);
  const std::string wasted =
      frame_of(kHeaders, kEndHeaders, 1, "") + frame_of(kReset, 0, 1, "1234");
  EXPECT_EQ(frames_until_flood(watch, wasted, 10'000),
            (FrameWatch::kFramesASecond - 2) / FrameWatch::kWastedCall);
}

TEST_F(SilentCalls, ThatAreResetOnceServedAreNot) {
  FrameWatch watch(clock_of_test);
  settle(watch);
  const std::string given_up = frame_of(kHeaders, kEndHeaders, 1, "") +
                               frame_of(kData, 0, 1, message_of(1, 1)) +
                               frame_of(kReset, 0, 1, "1234");
  EXPECT_EQ(frames_until_flood(watch, given_up, 1500), 1500u);
}

TEST_F(FrameWatchTest, EndsResetsOfAnAddressWhoseConnectionsAreMadeAgain) {
  const auto address = std::make_shared<AddressAccount>(1000);
  size_t resets = 0;
  for (int i = 0; i < 100; ++i) {
    FrameWatch watch(clock_of_test, address);
    EXPECT_TRUE(watch.see(std::string(24, 'P')));
    resets += frames_until_flood(watch, frame(kReset, 0, 4), 100'000);
  }
  EXPECT_LE(resets, AddressAccount::kFramesAtOnce + 100 * FrameWatch::kFewFrames);
  FrameWatch honest(clock_of_test, address);
  EXPECT_TRUE(honest.see(std::string(24, 'P')));
  EXPECT_EQ(frames_until_flood(honest, frame(kPing, 0, 8), 10), 10u);
  now += seconds(2);
  EXPECT_EQ(frames_until_flood(honest, frame(kPing, 0, 8), 1000), 1000u);
}

// As clients in Go measure their link: a ping for each piece of a reply.
TEST_F(FrameWatchTest, LetsAPingPassForEachPieceOfAReply) {
  const auto address = std::make_shared<AddressAccount>(1000);
  FrameWatch watch(clock_of_test, address);
  EXPECT_TRUE(watch.see(std::string(24, 'P')));
  for (int i = 0; i < 10'000; ++i) {
    watch.sent(frame(kData, 0, 100));
    ASSERT_TRUE(watch.see(frame(kPing, 0, 8))) << i;
  }
  EXPECT_EQ(frames_until_flood(watch, frame(kPing, 0, 8), 10'000), FrameWatch::kFramesASecond - 1);
}

// Whole calls of one connection, given up once `after` has passed: how many until it is a flood.
// So many others were answered before.
size_t given_up(FrameWatch& watch, std::chrono::milliseconds after, size_t most,
                size_t answered = 0) {
  constexpr uint8_t kAtATime = 100;
  const auto call = [](uint8_t stream) {
    return frame_of(kHeaders, kEndHeaders, stream, "") +
           frame_of(kData, kEndStream, stream, message_of(1, 1));
  };
  watch.answered();
  EXPECT_TRUE(watch.see(std::string(24, 'P') + frame_of(kSettings, kAcknowledged, 0, "")));
  for (size_t i = 0; i < answered; ++i) {
    EXPECT_TRUE(watch.see(call(1)));
    watch.sent(frame_of(kHeaders, kEndStream | kEndHeaders, 1, "status"));
  }
  for (size_t all = 0; all < most;) {
    for (uint8_t stream = 1; stream <= kAtATime; ++stream) {
      if (!watch.see(call(stream))) return all;
    }
    now += after;
    for (uint8_t stream = 1; stream <= kAtATime; ++stream, ++all) {
      if (!watch.see(frame_of(kReset, 0, stream, "1234"))) return all;
    }
  }
  return most;
}

TEST_F(FrameWatchTest, CallsThatAreGivenUpAtTheirDeadlineCostTheirAddressNothing) {
  const auto address = std::make_shared<AddressAccount>(1000);
  for (int connection = 0; connection < 8; ++connection) {
    FrameWatch watch(clock_of_test, address);
    EXPECT_EQ(given_up(watch, std::chrono::milliseconds(5), 10'000, FrameWatch::kMostCredit),
              FrameWatch::kFramesASecond - 2);
  }
}

// However many calls of a connection were answered once.
TEST_F(FrameWatchTest, AnswersCountForAFewThousandCallsThatAreGivenUp) {
  const auto address = std::make_shared<AddressAccount>(1000);
  FrameWatch watch(clock_of_test, address);
  open_wide(watch);
  constexpr size_t kMany = 20 * FrameWatch::kMostCredit;
  const size_t all = given_up(watch, std::chrono::milliseconds(100), kMany, kMany);
  EXPECT_GE(all, size_t{FrameWatch::kMostCredit});
  EXPECT_LT(all, 3 * (FrameWatch::kMostCredit + AddressAccount::kGivenUpAtOnce));
}

TEST_F(FrameWatchTest, CallsOfWhichNoneIsWaitedForAreAFloodOfTheirAddress) {
  const auto address = std::make_shared<AddressAccount>(1000);
  size_t all = 0;
  for (int connection = 0; connection < 30; ++connection) {
    FrameWatch watch(clock_of_test, address);
    all += given_up(watch, std::chrono::milliseconds(5), 10'000);
  }
  EXPECT_LT(all, 2 * AddressAccount::kGivenUpAtOnce);
}

// As at a deadline that the server knows of.
TEST_F(FrameWatchTest, CallsThatTheServerEndsAtTheirDeadlineAreGivenUp) {
  const auto address = std::make_shared<AddressAccount>(1000);
  const std::string call =
      frame_of(kHeaders, kEndHeaders, 1, "") + frame_of(kData, kEndStream, 1, message_of(1, 1));
  const std::string answer = frame_of(kHeaders, kEndStream | kEndHeaders, 1, "status");
  const auto until_flood = [&](FrameWatch& watch, const std::string& sent) {
    watch.answered();
    EXPECT_TRUE(watch.see(std::string(24, 'P') + frame_of(kSettings, kAcknowledged, 0, "")));
    open_wide(watch);
    for (size_t all = 0; all < 10'000; ++all) {
      if (!watch.see(call)) return all;
      watch.sent(sent);
    }
    return size_t{10'000};
  };
  FrameWatch answered(clock_of_test, address);
  EXPECT_EQ(until_flood(answered, answer), 10'000u);
  size_t all = 0;
  for (int connection = 0; connection < 30; ++connection) {
    FrameWatch watch(clock_of_test, address);
    all += until_flood(watch, answer + frame_of(kReset, 0, 1, "1234"));
  }
  EXPECT_GE(all, size_t{AddressAccount::kGivenUpAtOnce});
  EXPECT_LT(all, 2 * AddressAccount::kGivenUpAtOnce);
}

TEST_F(FrameWatchTest, CallsThatAreGivenUpAtOnceAreAFloodOfTheirAddress) {
  const auto address = std::make_shared<AddressAccount>(1000);
  size_t all = 0;
  for (int connection = 0; connection < 10; ++connection) {
    FrameWatch watch(clock_of_test, address);
    all += given_up(watch, std::chrono::milliseconds(0), 10'000);
  }
  EXPECT_LE(all, AddressAccount::kFramesAtOnce + 10 * FrameWatch::kFewFrames);
}

// Each makes gRPC look for what it could send.
TEST_F(FrameWatchTest, EndsWindowsThatOpenWithoutAReply) {
  FrameWatch idle(clock_of_test);
  EXPECT_TRUE(idle.see(std::string(24, 'P')));
  EXPECT_EQ(frames_until_flood(idle, frame(kUpdate, 0, 4), 100'000),
            FrameWatch::kFramesASecond - 1);
  const auto address = std::make_shared<AddressAccount>(1000);
  FrameWatch reads(clock_of_test, address);
  EXPECT_TRUE(reads.see(std::string(24, 'P')));
  for (int i = 0; i < 10'000; ++i) {
    reads.sent(frame(kData, 0, 16'384));
    for (int update = 0; update < 20; ++update) {
      ASSERT_TRUE(reads.see(frame(kUpdate, 0, 4))) << i;
    }
  }
}

TEST_F(FrameWatchTest, EndsMessagesThatComeInCrumbs) {
  EXPECT_TRUE(watch_.see(frame_of(kHeaders, kEndHeaders, 1, "head") +
                         frame_of(kData, 0, 1, message_of(1 << 24, 0))));
  EXPECT_EQ(frames_until_flood(watch_, frame_of(kData, 0, 1, "x"), 100'000),
            FrameWatch::kFramesASecond + FrameWatch::kFewCrumbs - 2);
}

// Some send what stands before a message, and what is left of one, in frames of their own.
TEST_F(FrameWatchTest, LetsMessagesPassOfWhichAPieceIsShort) {
  const std::string call = frame_of(kHeaders, kEndHeaders, 1, "head") +
                           frame_of(kData, 0, 1, message_of(30'000, 0)) +
                           frame_of(kData, 0, 1, std::string(16'384, 'x')) +
                           frame_of(kData, 0, 1, std::string(100, 'x')) +
                           frame_of(kData, kEndStream, 1, std::string(13'516, 'x'));
  watch_.answered();
  EXPECT_TRUE(watch_.see(frame(kSettings, kAcknowledged, 0)));
  EXPECT_EQ(frames_until_flood(watch_, call, 10'000), 10'000u);
}

// What its client has sent by then, and sends until it knows.
TEST_F(FrameWatchTest, LetsSmallPiecesPassOfACallThatTheServerHasEnded) {
  EXPECT_TRUE(watch_.see(frame_of(kHeaders, kEndHeaders, 1, "head") +
                         frame_of(kData, 0, 1, message_of(4, 4))));
  watch_.sent(frame_of(kHeaders, kEndStream | kEndHeaders, 1, "why"));
  EXPECT_EQ(frames_until_flood(watch_, frame_of(kData, 0, 1, message_of(4, 4)), 100'000),
            FrameWatch::kLateCrumbs + FrameWatch::kFramesASecond - 1);
}

TEST_F(FrameWatchTest, SeesTheSameInPieces) {
  watch_.answered();
  EXPECT_TRUE(watch_.see(frame(kSettings, kAcknowledged, 0)));
  const std::string call = frame(kHeaders, kEndHeaders, 5) + frame(kReset, 0, 4);
  size_t bytes = 0;
  while (watch_.see({&call[bytes % call.size()], 1})) ++bytes;
  EXPECT_EQ(bytes / call.size(), (FrameWatch::kFramesASecond - 2) / FrameWatch::kWastedCall);
}

}  // namespace
}  // namespace fermata::serve
