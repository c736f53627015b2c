// Which streams give way where their memory is wanted.
#include "serve/grpc/open_streams.h"

#include <gtest/gtest.h>

#include <memory>

namespace fermata::serve {
namespace {

using std::chrono::seconds;
using Moment = OpenStreams::Moment;

struct FakeStream final : OpenStreams::Stream {
  explicit FakeStream(const ByteBudget* of) : address(of) {}
  void drain() override {}
  bool give_way(const absl::Status& why) override {
    if (!idle) return false;
    ended = why;
    idle.reset();
    return true;
  }
  std::optional<Moment> idle_since() override { return idle; }
  const ByteBudget* share() const override { return address; }

  const ByteBudget* const address;
  std::optional<Moment> idle = Moment();
  absl::Status ended;
};

class OpenStreamsTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeStream> open(const ByteBudget& of) {
    auto stream = std::make_shared<FakeStream>(&of);
    streams_.add(stream);
    return stream;
  }
  const ByteBudget here_{1}, there_{1};
  OpenStreams streams_;
};

TEST_F(OpenStreamsTest, TheOldestWithoutAMessageGivesWayFirst) {
  const auto used = open(here_), first = open(here_), second = open(here_);
  streams_.used(used.get());
  EXPECT_TRUE(streams_.end_idle(nullptr, Moment()));
  EXPECT_FALSE(first->ended.ok());
  EXPECT_TRUE(streams_.end_idle(nullptr, Moment()));
  EXPECT_FALSE(second->ended.ok());
  EXPECT_FALSE(streams_.end_idle(nullptr, Moment()));
  EXPECT_TRUE(used->ended.ok());
}

TEST_F(OpenStreamsTest, ThenTheOneThatIsIdleForLongest) {
  const auto busy = open(here_), idle = open(here_), longer = open(here_);
  for (const auto& stream : {busy, idle, longer}) streams_.used(stream.get());
  busy->idle.reset();
  idle->idle = Moment() + seconds(1);
  EXPECT_FALSE(streams_.end_idle(nullptr, Moment() + seconds(9)));
  EXPECT_TRUE(streams_.end_idle(nullptr, Moment() + seconds(10)));
  EXPECT_FALSE(longer->ended.ok());
  EXPECT_FALSE(streams_.end_idle(nullptr, Moment() + seconds(10)));
  EXPECT_TRUE(streams_.end_idle(nullptr, Moment() + seconds(11)));
  EXPECT_FALSE(idle->ended.ok());
  EXPECT_FALSE(streams_.end_idle(nullptr, Moment() + seconds(99)));
}

TEST_F(OpenStreamsTest, AnAddressMakesRoomForItselfAlone) {
  const auto theirs = open(there_), ours = open(here_);
  EXPECT_TRUE(streams_.end_idle(&here_, Moment()));
  EXPECT_FALSE(ours->ended.ok());
  EXPECT_FALSE(streams_.end_idle(&here_, Moment() + seconds(99)));
  EXPECT_TRUE(theirs->ended.ok());
}

}  // namespace
}  // namespace fermata::serve
