#include "engine/threads/latest_slot.h"

#include <gtest/gtest.h>

#include <thread>

namespace fermata::engine {
namespace {

TEST(LatestSlot, TheReaderGetsTheLatestAndIsToldOnce) {
  LatestSlot<int> slot;
  EXPECT_EQ(slot.fetch(), nullptr);
  EXPECT_TRUE(slot.publish(1));
  EXPECT_FALSE(slot.publish(2));
  EXPECT_EQ(*slot.fetch(), 2);
  EXPECT_EQ(slot.fetch(), nullptr);
  EXPECT_TRUE(slot.publish(3));
  EXPECT_EQ(*slot.fetch(), 3);
}

TEST(LatestSlot, NeverTornNeverBackwards) {
  struct Pair {
    uint64_t a = 0, b = 0;
  };
  LatestSlot<Pair> slot;
  constexpr uint64_t kLast = 200'000;
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kLast; ++i) slot.publish({i, ~i});
  });
  for (uint64_t seen = 0; seen < kLast;) {
    const Pair* p = slot.fetch();
    if (p == nullptr) continue;
    EXPECT_EQ(p->a, ~p->b);
    EXPECT_GT(p->a, seen);
    seen = p->a;
  }
  writer.join();
}

}  // namespace
}  // namespace fermata::engine
