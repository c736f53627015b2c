// What a worker keeps of what stages gave, and how others get it.
#include "cluster/worker/keeper.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "cluster/fixture.h"
#include "cluster/wire/lookout.h"
#include "cluster/worker/holders.h"

namespace fermata::cluster {
namespace {

Time ever() { return monotonic_now() + Duration::seconds(3600); }

Kept kept(uint64_t key, uint64_t first, uint64_t bytes) {
  Kept what;
  what.set_key(key);
  what.set_first(first);
  what.set_bytes(bytes);
  return what;
}

class Keeping : public ::testing::Test {
 protected:
  Keeping() { EXPECT_TRUE(keeper_.listen("127.0.0.1", 0).ok()); }
  std::optional<uint64_t> keep(uint32_t readers, Time until = ever()) {
    return keeper_.keep(tensor_.data.bytes, readers, until);
  }

  const Tensor tensor_ = numbers("y", {2, 2}, {1, 2, 3, 4});
  Keeper keeper_{{}, 40};
};

TEST_F(Keeping, GoesWhenAllReadersHaveIt) {
  const auto key = keep(2);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(keeper_.held(), 16u);
  EXPECT_TRUE(keeper_.give(kept(*key, 0, 16)).ok());
  const auto half = keeper_.give(kept(*key, 8, 8));
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(std::memcmp(half->bytes.data(), tensor_.data.bytes.data() + 8, 8), 0);
  EXPECT_TRUE(keeper_.give(kept(*key, 0, 8)).ok());
  EXPECT_EQ(keeper_.held(), 0u);
  EXPECT_TRUE(absl::IsNotFound(keeper_.give(kept(*key, 0, 8)).status()));
  EXPECT_EQ(half->bytes.size(), 8u);  // who has it keeps it
}

// Who has an hour may go at once, and nobody fetches it.
TEST_F(Keeping, IsNotKeptForAsLongAsAClientSays) {
  ASSERT_TRUE(keep(1).has_value());
  keeper_.forget(monotonic_now() + Keeper::kLongest);
  EXPECT_EQ(keeper_.held(), 0u);
}

TEST_F(Keeping, StaysForAsLongAsAClientSaysWhereItIsLittle) {
  Keeper roomy({}, 40 * Keeper::kLittle);
  ASSERT_TRUE(roomy.listen("127.0.0.1", 0).ok());
  ASSERT_TRUE(roomy.keep(tensor_.data.bytes, 1, ever()).has_value());
  roomy.forget(monotonic_now() + Keeper::kLongest);
  EXPECT_EQ(roomy.held(), 16u);
}

TEST_F(Keeping, GivesNothingBeyondIt) {
  const auto key = keep(1);
  EXPECT_TRUE(absl::IsInvalidArgument(keeper_.give(kept(*key, 9, 8)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(keeper_.give(kept(*key, ~uint64_t{0}, 8)).status()));
  EXPECT_TRUE(absl::IsNotFound(keeper_.give(kept(*key + 1, 0, 8)).status()));
}

TEST_F(Keeping, HasNoRoomForMore) {
  const auto first = keep(1);
  EXPECT_TRUE(keep(1).has_value());
  EXPECT_FALSE(keep(1).has_value());
  EXPECT_TRUE(keeper_.give(kept(*first, 0, 16)).ok());
  EXPECT_TRUE(keep(1).has_value());
}

TEST(Keeper, HasRoomForSoManySmallOnes) {
  const Tensor tensor = numbers("y", {1}, {1});
  Keeper keeper({});
  ASSERT_TRUE(keeper.listen("127.0.0.1", 0).ok());
  std::optional<uint64_t> key;
  for (size_t i = 0; i < Keeper::kMostTensors; ++i) key = keeper.keep(tensor.data.bytes, 1, ever());
  ASSERT_TRUE(key.has_value());
  EXPECT_FALSE(keeper.keep(tensor.data.bytes, 1, ever()).has_value());
  EXPECT_TRUE(keeper.give(kept(*key, 0, sizeof(float))).ok());
  EXPECT_TRUE(keeper.keep(tensor.data.bytes, 1, ever()).has_value());
}

TEST_F(Keeping, ForgetsWhatNobodyFetchedInTime) {
  const auto late = keep(1, monotonic_now() - Duration::millis(1));
  EXPECT_TRUE(absl::IsNotFound(keeper_.give(kept(*late, 0, 16)).status()));
  EXPECT_EQ(keeper_.held(), 0u);
  keep(1, monotonic_now() + Duration::seconds(60));
  keeper_.forget(monotonic_now());
  EXPECT_EQ(keeper_.held(), 16u);
  keeper_.forget(monotonic_now() + Duration::seconds(60));
  EXPECT_EQ(keeper_.held(), 0u);
}

TEST(Keeper, KeepsNothingWhereNobodyCanFetchIt) {
  const Tensor tensor = numbers("y", {1}, {1});
  EXPECT_FALSE(Keeper({}).keep(tensor.data.bytes, 1, ever()).has_value());
}

}  // namespace
}  // namespace fermata::cluster
