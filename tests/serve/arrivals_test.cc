// Who gives way of those whose messages have half come.
#include "serve/grpc/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "serve/net/memory_return.h"

namespace fermata::serve {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMega = 1 << 20;

class ArrivalsTest : public ::testing::Test {
 protected:
  // `bytes` more of a connection that holds as many before.
  void comes(uint64_t connection, uint64_t before, uint64_t bytes) {
    arrivals_.set(connection, before + bytes, bytes, now_);
  }
  std::vector<uint64_t> ended_;
  Arrivals::Moment now_{};
  const std::shared_ptr<ByteBudget> whole_ = std::make_shared<ByteBudget>(100 * kMega);
  Arrivals arrivals_{10 * kMega, whole_, [this](uint64_t one) { ended_.push_back(one); }};
};

TEST_F(ArrivalsTest, TheSlowestGivesWay) {
  comes(1, 0, 4 * kMega);
  comes(2, 0, 3 * kMega);
  now_ += seconds(30);
  comes(2, 3 * kMega, 1 * kMega);
  EXPECT_EQ(whole_->used(), 8 * kMega);
  EXPECT_THAT(ended_, IsEmpty());
  comes(3, 0, 5 * kMega);
  EXPECT_THAT(ended_, ElementsAre(1));
  EXPECT_EQ(arrivals_.bytes(), 9 * kMega);
}

TEST_F(ArrivalsTest, ElseTheLargest) {
  comes(1, 0, 6 * kMega);
  comes(2, 0, 4 * kMega);
  comes(3, 0, 1 * kMega);
  EXPECT_THAT(ended_, ElementsAre(1));
  comes(3, 1 * kMega, 8 * kMega);
  EXPECT_THAT(ended_, ElementsAre(1, 3));
}

// Clients that have opened a stream and say nothing yet are the slowest, and free next to nothing.
TEST_F(ArrivalsTest, WhoHoldsFarLessThanAnEqualShareStays) {
  for (uint64_t quiet = 1; quiet <= 10; ++quiet) comes(quiet, 0, 20 * 1024);
  now_ += seconds(30);
  comes(11, 0, 11 * kMega);
  EXPECT_THAT(ended_, ElementsAre(11));
}

TEST_F(ArrivalsTest, WhatIsWholeOrClosedHoldsNothing) {
  comes(1, 0, 6 * kMega);
  arrivals_.set(1, 0, kMega, now_);
  EXPECT_EQ(whole_->used(), 0u);
  comes(2, 0, 6 * kMega);
  arrivals_.forget(2);
  arrivals_.forget(2);
  EXPECT_EQ(whole_->used(), 0u);
  EXPECT_THAT(ended_, IsEmpty());
}

// What the allocator keeps goes back when a load is over, not under it.
class MemoryReturnTest : public ::testing::Test {
 protected:
  static constexpr int kLong = 100;

  bool due(uint64_t mib) { return memory_.is_due(mib * kMega); }
  void gave(uint64_t left, int64_t took_ms = 0) {
    memory_.gave(left * kMega, std::chrono::milliseconds(took_ms));
  }
  // Looks until it is due.
  int looks(uint64_t mib) {
    int count = 1;
    while (!due(mib) && count < kLong) ++count;
    return count;
  }

  const std::shared_ptr<ByteBudget> clients_ = std::make_shared<ByteBudget>(100 * kMega);
  MemoryReturn memory_{clients_, std::chrono::seconds(1)};
};

TEST_F(MemoryReturnTest, IsDueOnceItIsCalmAndThereIsMoreThanBefore) {
  EXPECT_EQ(looks(80), kLong);
  {
    const HeldBytes load(clients_, clients_->take(50 * kMega) ? 50 * kMega : 0);
    EXPECT_EQ(looks(300), kLong);
  }
  EXPECT_EQ(looks(300), MemoryReturn::kCalmLooks);
  gave(85);
  EXPECT_EQ(looks(85), kLong);
  EXPECT_EQ(looks(200), 1);  // it has been calm for long
}

TEST_F(MemoryReturnTest, TriesLessOftenWhileNothingComesOfIt) {
  EXPECT_FALSE(due(80));
  EXPECT_EQ(looks(300), MemoryReturn::kCalmLooks - 1);
  for (const int64_t looks_later : {6, 12, 16, 16}) {
    gave(300);
    EXPECT_EQ(looks(300), looks_later);
  }
  gave(150);  // a load was over
  EXPECT_EQ(looks(150), MemoryReturn::kCalmLooks);
  gave(150);
  EXPECT_EQ(looks(180), MemoryReturn::kCalmLooks);  // there is more again
}

TEST_F(MemoryReturnTest, TakesAFiveHundredthOfTheTimeAtMost) {
  EXPECT_FALSE(due(80));
  EXPECT_EQ(looks(300), MemoryReturn::kCalmLooks - 1);
  gave(150, 100);
  EXPECT_EQ(looks(150), 50);
  gave(150, 0);
  EXPECT_EQ(looks(200), MemoryReturn::kCalmLooks);
}

}  // namespace
}  // namespace fermata::serve
