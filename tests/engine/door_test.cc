#include "engine/host/door.h"

#include <gtest/gtest.h>

namespace fermata::engine {
namespace {

TEST(Door, ClosesWhereNobodyIs) {
  Door door;
  EXPECT_FALSE(door.enter());
  door.open();
  EXPECT_TRUE(door.enter());
  EXPECT_FALSE(door.close_if([] { return true; }));  // who entered has not left
  door.leave();
  EXPECT_FALSE(door.close_if([] { return false; }));  // what came is there
  EXPECT_TRUE(door.enter());
  door.leave();
  EXPECT_TRUE(door.close_if([] { return true; }));
  EXPECT_FALSE(door.enter());
  EXPECT_TRUE(door.close_if([] { return true; }));
  door.open();
  EXPECT_TRUE(door.enter());
}

// At the moment of a try nobody may be sent away: who comes then keeps it open.
TEST(Door, WhoComesWhileItIsTriedKeepsItOpen) {
  Door door;
  door.open();
  EXPECT_FALSE(door.close_if([&] {
    EXPECT_TRUE(door.enter());
    door.leave();
    return true;
  }));
  EXPECT_TRUE(door.enter());
}

}  // namespace
}  // namespace fermata::engine
