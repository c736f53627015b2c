#include "policy/stream/stream_residents.h"

#include <gtest/gtest.h>

namespace fermata::policy {
namespace {

// Loads what is ordered for the only worker, one after the other.
struct Loader {
  explicit Loader(uint32_t room) : residents(1, 16, room) {}
  // The DNN that is being loaded, if any.
  std::optional<uint32_t> loading() {
    for (const StreamResidents::Order& order : residents.take_orders()) {
      if (order.load) now_loading = order.variant;
    }
    return now_loading;
  }
  bool end(bool ok = true) {
    const std::optional<uint32_t> variant = loading();
    if (!variant) return false;
    now_loading.reset();
    residents.loaded(0, *variant, ok);
    return true;
  }
  void end_all() {
    while (end()) {
    }
  }
  StreamResidents residents;
  std::optional<uint32_t> now_loading;
};

TEST(StreamResidents, TheOldOneRunsUntilTheNewOneIsLoaded) {
  Loader one(1);
  EXPECT_EQ(one.residents.want(0, 7), std::nullopt);
  one.end_all();
  EXPECT_EQ(one.residents.want(0, 8), false);
  EXPECT_EQ(one.residents.serving(8), 7u);
  EXPECT_TRUE(one.residents.awaited(8));
  EXPECT_FALSE(one.residents.awaited(9));
  one.end_all();
  EXPECT_EQ(one.residents.serving(8), 8u);
  EXPECT_FALSE(one.residents.awaited(8));
  EXPECT_FALSE(one.residents.holds(0, 7));
  EXPECT_EQ(one.residents.serving(7), 8u);  // a frame that was under way
  EXPECT_EQ(one.residents.want(0, 8), std::nullopt);
}

TEST(StreamResidents, WhatIsWantedMeanwhileIsLoadedNext) {
  Loader one(1);
  one.residents.want(0, 7);
  one.end_all();
  one.residents.want(0, 8);
  EXPECT_EQ(one.residents.want(0, 9), false);
  EXPECT_EQ(one.loading(), 8u);
  one.end();
  EXPECT_EQ(one.residents.serving(9), 7u);
  EXPECT_EQ(one.loading(), 9u);
  one.end();
  EXPECT_EQ(one.residents.serving(9), 9u);
  EXPECT_EQ(one.loading(), std::nullopt);
  // Back before the other came: it has never left.
  one.residents.want(0, 3);
  EXPECT_EQ(one.residents.want(0, 9), true);
}

TEST(StreamResidents, NeighboursAreLoadedAheadWithinTheRoom) {
  Loader five(5);
  five.residents.want(0, 7);
  five.end_all();
  for (const uint32_t near : {5u, 6u, 7u, 8u, 9u}) EXPECT_TRUE(five.residents.holds(0, near));
  EXPECT_FALSE(five.residents.holds(0, 10));
  EXPECT_EQ(five.residents.want(0, 9), true);
  const auto orders = five.residents.take_orders();
  ASSERT_EQ(orders.size(), 2u);  // room first
  EXPECT_EQ(orders[0].variant, 5u);
  EXPECT_FALSE(orders[0].load);
  EXPECT_TRUE(orders[1].load);
  five.residents.loaded(0, orders[1].variant, true);
  five.end_all();
  EXPECT_TRUE(five.residents.holds(0, 11));
  EXPECT_FALSE(five.residents.holds(0, 6));
}

TEST(StreamResidents, WhereWorkersWentBeforeIsLoadedAheadToo) {
  Loader five(5);
  five.residents.want(0, 2);
  uint32_t missed = 0;
  for (int i = 1; i <= 40; ++i) {
    five.end_all();
    missed += five.residents.want(0, i % 2 == 0 ? 2 : 14) == false;
  }
  EXPECT_LE(missed, 4u);
}

TEST(StreamResidents, OneThatCannotBeLoadedIsTriedAgainWhenItIsWantedAnew) {
  Loader two(2);
  two.residents.want(0, 7);
  two.end_all();
  ASSERT_TRUE(two.residents.holds(0, 6));
  two.residents.want(0, 9);
  EXPECT_TRUE(two.end(false));
  EXPECT_EQ(two.residents.serving(9), 7u);
  two.end_all();
  two.residents.want(0, 7);
  two.residents.want(0, 9);
  two.end_all();
  EXPECT_EQ(two.residents.serving(9), 9u);
}

TEST(StreamResidents, OneThatIsReplacedIsLoadedAnew) {
  Loader two(2);
  two.residents.want(0, 7);
  two.end_all();
  two.residents.replaced(7);
  EXPECT_EQ(two.residents.serving(7), 6u);
  EXPECT_EQ(two.loading(), 7u);
  two.end_all();
  EXPECT_EQ(two.residents.serving(7), 7u);
}

TEST(StreamResidents, AWorkerServesWhatTheOtherHasLoaded) {
  StreamResidents two(2, 16, 1);
  two.want(0, 3);
  two.want(1, 8);
  EXPECT_EQ(two.serving(8), 8u);  // nothing is there yet
  two.loaded(0, 3, true);
  EXPECT_EQ(two.serving(8), 3u);
  two.loaded(1, 8, true);
  EXPECT_EQ(two.serving(8), 8u);
}

}  // namespace
}  // namespace fermata::policy
