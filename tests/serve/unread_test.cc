// Answers that clients do not take.
#include "serve/grpc/unread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace fermata::serve {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Unread, EndsWhoHoldsMostOnceItHasLasted) {
  std::vector<uint64_t> ended;
  Unread unread(100, [&](uint64_t connection) { ended.push_back(connection); });
  const Unread::Moment start{};
  unread.set({1}, 40, start);
  unread.set({2}, 60, start);
  unread.look(start + seconds(5));
  EXPECT_THAT(ended, IsEmpty());  // it is no more than may be
  unread.set({3}, 500, start + seconds(5));
  unread.look(start + seconds(5));
  EXPECT_THAT(ended, IsEmpty());  // it has just begun, and the others are not the cause
  unread.set({4}, 10, start + seconds(5));
  unread.look(start + seconds(6));
  EXPECT_THAT(ended, ElementsAre(3, 2));
  EXPECT_EQ(unread.bytes(), 50u);
}

TEST(Unread, EndsThatOfTheAddressThatHoldsMost) {
  std::vector<uint64_t> ended;
  Unread unread(100, [&](uint64_t connection) { ended.push_back(connection); });
  const Unread::Moment start{};
  unread.set({1, "one"}, 50, start);
  for (uint64_t i = 2; i < 5; ++i) unread.set({i, "many"}, 16 + i, start);
  unread.look(start + seconds(1));
  EXPECT_THAT(ended, ElementsAre(4));
  EXPECT_EQ(unread.bytes(), 87u);
}

TEST(Unread, BeginsAnewOnceAllIsTaken) {
  std::vector<uint64_t> ended;
  Unread unread(100, [&](uint64_t connection) { ended.push_back(connection); });
  const Unread::Moment start{};
  unread.set({1}, 500, start);
  unread.set({1}, 0, start + seconds(5));
  unread.set({1}, 500, start + seconds(5));
  unread.look(start + seconds(5));
  EXPECT_THAT(ended, IsEmpty());
  unread.forget(1);
  EXPECT_EQ(unread.bytes(), 0u);
}

}  // namespace
}  // namespace fermata::serve
