#include "engine/host/room.h"

#include <gtest/gtest.h>

#include <thread>

namespace fermata::engine {
namespace {

constexpr Duration kLong = Duration::seconds(600);  // nothing waits for so long

TEST(Room, StaticPartsAddUpAndTheLargestDynamicOneCounts) {
  Room room(100);
  EXPECT_TRUE(room.take(VariantId(1), {30, 20}, Duration()));
  EXPECT_TRUE(room.take(VariantId(2), {40, 10}, Duration()));
  EXPECT_EQ(room.used_mb(), 90);
  EXPECT_FALSE(room.take(VariantId(3), {5, 26}, kLong));
  EXPECT_TRUE(room.take(VariantId(3), {5, 25}, kLong));
  EXPECT_EQ(room.used_mb(), 100);
}

TEST(Room, NothingIsInItTwice) {
  Room room(100);
  EXPECT_TRUE(room.take(VariantId(1), {}, kLong));
  EXPECT_FALSE(room.take(VariantId(1), {}, kLong));
  room.left(VariantId(1));
  EXPECT_TRUE(room.take(VariantId(1), {}, kLong));
}

TEST(Room, WaitsForWhatIsLeaving) {
  Room room(100);
  EXPECT_TRUE(room.take(VariantId(1), {60, 0}, kLong));
  EXPECT_TRUE(room.take(VariantId(2), {30, 0}, kLong));
  room.leaving(VariantId(1));
  EXPECT_FALSE(room.take(VariantId(3), {71, 0}, kLong));  // not even then
  EXPECT_FALSE(room.take(VariantId(3), {70, 0}, Duration()));
  std::thread leaver([&room] { room.left(VariantId(1)); });
  EXPECT_TRUE(room.take(VariantId(3), {70, 0}, kLong));
  leaver.join();
}

TEST(Room, ComesBackOnlyAfterItLeft) {
  Room room(100);
  EXPECT_TRUE(room.take(VariantId(1), {10, 0}, kLong));
  room.leaving(VariantId(1));
  EXPECT_FALSE(room.take(VariantId(1), {10, 0}, Duration()));
  std::thread leaver([&room] { room.left(VariantId(1)); });
  EXPECT_TRUE(room.take(VariantId(1), {10, 0}, kLong));
  leaver.join();
}

TEST(Room, ClosingEndsAWait) {
  Room room(100);
  EXPECT_TRUE(room.take(VariantId(1), {60, 0}, kLong));
  room.leaving(VariantId(1));
  std::thread closer([&room] { room.close(); });
  EXPECT_FALSE(room.take(VariantId(2), {60, 0}, kLong));
  closer.join();
  EXPECT_FALSE(room.take(VariantId(3), {1, 0}, kLong));
}

}  // namespace
}  // namespace fermata::engine
