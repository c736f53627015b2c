#include "cluster/wire/newcomers.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace fermata::cluster {
namespace {

class Silent : public Channel {
 public:
  absl::Status send(const Message&, absl::Span<const Bytes>) override { return internal("no"); }
  absl::StatusOr<Frame> receive(const FrameLimits&) override { return internal("no"); }
  std::string peer() const override { return "silent"; }
  bool has_room() const override { return true; }
  bool is_cut = false;

 private:
  void shut() override { is_cut = true; }
};

class NewcomersTest : public testing::Test {
 protected:
  std::shared_ptr<Silent> come(const std::string& machine) {
    const auto channel = std::make_shared<Silent>();
    there_.push_back(channel);
    const auto gone = newcomers_.add(machine, channel);
    if (gone != nullptr) gone->cut();
    return channel;
  }
  int cut() const {
    int count = 0;
    for (const auto& each : there_) count += each->is_cut;
    return count;
  }
  static Time at(double s) { return Time() + Duration::from_seconds(s); }

  Newcomers newcomers_;
  std::vector<std::shared_ptr<Silent>> there_;
};

TEST_F(NewcomersTest, InACrowdTheOldestOfTheMachineThatHasMostGoes) {
  const auto honest = come("honest");
  const auto oldest = come("crowd");
  for (size_t i = 2; i < Newcomers::kMost; ++i) come("crowd");
  EXPECT_EQ(cut(), 0);
  come("crowd");
  EXPECT_TRUE(oldest->is_cut);
  for (size_t i = 0; i < 1000; ++i) come("crowd");
  const auto other = come("other");
  EXPECT_EQ(cut(), 1002);
  EXPECT_FALSE(honest->is_cut);
  EXPECT_FALSE(other->is_cut);
}

TEST_F(NewcomersTest, InACrowdOfManyMachinesTheOldestGoesWhateverItsAddress) {
  const auto oldest = come("m");
  for (size_t i = 2; i < Newcomers::kMost; ++i) come("m" + std::to_string(i));
  const auto honest = come("a");
  come("n");
  EXPECT_TRUE(oldest->is_cut);
  EXPECT_FALSE(honest->is_cut);
}

TEST_F(NewcomersTest, WhoHasSaidWhoItIsStays) {
  const auto known = come("crowd");
  newcomers_.remove(known);
  for (size_t i = 0; i < 2 * Newcomers::kMost; ++i) come("crowd");
  EXPECT_FALSE(known->is_cut);
  EXPECT_EQ(static_cast<size_t>(cut()), Newcomers::kMost);
  newcomers_.cut_all();
  EXPECT_FALSE(known->is_cut);
  EXPECT_EQ(static_cast<size_t>(cut()), 2 * Newcomers::kMost);
}

TEST_F(NewcomersTest, WhoHasGoneCountsForNothing) {
  for (size_t i = 0; i < Newcomers::kMost; ++i) come("crowd");
  there_.clear();
  const auto one = come("crowd");
  for (size_t i = 1; i < Newcomers::kMost; ++i) come("crowd");
  EXPECT_FALSE(one->is_cut);
}

TEST_F(NewcomersTest, AMachineMayConnectSoOften) {
  for (int i = 0; i < Newcomers::kAtOnce; ++i) EXPECT_TRUE(newcomers_.may_come("often", at(0)));
  EXPECT_FALSE(newcomers_.may_come("often", at(0)));
  EXPECT_TRUE(newcomers_.may_come("other", at(0)));
  for (int i = 0; i < Newcomers::kEachSecond; ++i) {
    EXPECT_TRUE(newcomers_.may_come("often", at(1)));
  }
  EXPECT_FALSE(newcomers_.may_come("often", at(1)));
}

// Machines that are quiet are forgotten, and who connects too often is not.
TEST_F(NewcomersTest, ManyMachinesDoNotMakeOneForgotten) {
  for (int i = 0; i < Newcomers::kAtOnce; ++i) EXPECT_TRUE(newcomers_.may_come("often", at(0)));
  for (size_t i = 0; i < 3 * Newcomers::kFewMachines; ++i) {
    (void)newcomers_.may_come(std::to_string(i), at(0));
  }
  int came = 0;
  for (int i = 0; i < Newcomers::kAtOnce; ++i) came += newcomers_.may_come("often", at(4));
  EXPECT_EQ(came, 4 * Newcomers::kEachSecond);
}

TEST_F(NewcomersTest, ManyMachinesMayConnectSoOftenTogetherBesideThoseThatHaveParts) {
  EXPECT_TRUE(newcomers_.may_come("part", at(0)));
  newcomers_.remove(come("part"));
  int came = 0;
  for (size_t i = 0; i < 3000; ++i) came += newcomers_.may_come(std::to_string(i), at(0));
  EXPECT_EQ(came, Newcomers::kAllAtOnce / 2 - 1);
  EXPECT_TRUE(newcomers_.may_come("part", at(0)));
  EXPECT_FALSE(newcomers_.may_come("other", at(0)));
  EXPECT_TRUE(newcomers_.may_come("other", at(1)));
}

// A part's too, of which a scheduler that has just taken over knows nothing.
TEST_F(NewcomersTest, MachinesThatComeOftenLeaveRoomForThoseThatHardlyCome) {
  for (int i = 0; i < 20 * Newcomers::kAtOnce; ++i) {
    (void)newcomers_.may_come(std::to_string(i % 20), at(0));
  }
  EXPECT_TRUE(newcomers_.may_come("new", at(0)));
}

TEST_F(NewcomersTest, AMachineThatWasForgottenInItsHandshakeHasAPartAfterIt) {
  const auto part = come("part");  // which was asked about long ago
  newcomers_.remove(part);
  for (size_t i = 0; i < 3000; ++i) (void)newcomers_.may_come(std::to_string(i), at(0));
  EXPECT_TRUE(newcomers_.may_come("part", at(0)));
}

}  // namespace
}  // namespace fermata::cluster
