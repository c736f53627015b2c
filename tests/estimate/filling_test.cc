#include "estimate/filling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "base/status.h"

namespace fermata::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

using Row = std::vector<float>;

// Two models; the second says ten times the first, and its square.
std::vector<OutputTable> history(std::vector<float> first) {
  OutputTable a{.width = 1, .values = first}, b{.width = 2};
  for (const float value : first) {
    b.values.push_back(10 * value);
    b.values.push_back(value * value);
  }
  return {a, b};
}

absl::StatusOr<std::vector<Row>> fill(const Filling& filling, const Row& a, const Row& b,
                                      std::optional<uint32_t> without = {}) {
  return filling.fill(std::vector<absl::Span<const float>>{a, b}, without);
}

TEST(Filling, NearerRecordsCountMore) {
  const Filling filling(history({0, 4, 100}), 2);
  // Distances 1 and 3: weights 1 and 1/3, so 3/4 of (0, 0) and 1/4 of (40, 16).
  const auto filled = fill(filling, {1}, {});
  ASSERT_TRUE(filled.ok());
  EXPECT_THAT((*filled)[0], ElementsAre(1));
  EXPECT_THAT((*filled)[1], ElementsAre(FloatEq(10), FloatEq(4)));
}

TEST(Filling, AnExactMatchCountsAlone) {
  const Filling filling(history({0, 4, 4, 5}), 3);
  EXPECT_THAT((*fill(filling, {4}, {}))[1], ElementsAre(40, 16));
  // Without itself: 4 again, and then 4 alone.
  EXPECT_THAT((*fill(filling, {4}, {}, 1))[1], ElementsAre(40, 16));
  // 4, 4 and 0 at distances 1, 1 and 5: (40 + 40) / 2.2 and (16 + 16) / 2.2.
  EXPECT_THAT((*fill(filling, {5}, {}, 3))[1], ElementsAre(FloatEq(80 / 2.2F), FloatEq(32 / 2.2F)));
}

TEST(Filling, DistancesAreOverWhatIsThere) {
  const Filling filling(history({0, 1, 2, 3}), 1);
  EXPECT_THAT((*fill(filling, {}, {19, 5}))[0], ElementsAre(2));
  const Row a = {7}, b = {1, 2};
  EXPECT_THAT((*fill(filling, a, b)), ElementsAre(a, b)) << "nothing is missing";
}

TEST(Filling, OfALongHistoryEvenlySpacedRecordsAreKept) {
  const Filling filling(history({0, 1, 2, 3, 4, 5}), 1, 3);
  EXPECT_THAT((*fill(filling, {2.9F}, {}))[1], ElementsAre(20, 4)) << "0, 2 and 4 are kept";
  EXPECT_THAT((*fill(filling, {2}, {}, 2))[1], ElementsAre(0, 0)) << "rows are the history's";
}

TEST(Filling, IsThatOfANaiveSearch) {
  Random random(5);
  for (int round = 0; round < 40; ++round) {
    const auto n = 2 + random.below(60);
    std::vector<OutputTable> tables = {{.width = 3}, {.width = 2}};
    for (OutputTable& table : tables) {
      for (size_t i = 0; i < n * table.width; ++i) {
        table.values.push_back(static_cast<float>(random.below(4)));
      }
    }
    const auto k = static_cast<uint32_t>(1 + random.below(8));
    const Row query = {static_cast<float>(random.below(4)), 1, 2};
    std::vector<std::pair<double, size_t>> all;
    for (size_t i = 0; i < n; ++i) all.emplace_back(euclidean(query, tables[0].row(i)), i);
    std::sort(all.begin(), all.end());
    all.resize(std::min<size_t>(k, n));
    double total = 0, first = 0;
    for (const auto& [distance, i] : all) {
      if (all[0].first == 0 && distance > 0) continue;
      const double weight = distance == 0 ? 1 : 1 / distance;
      total += weight;
      first += weight * double{tables[1].row(i)[0]};
    }
    const auto filled = fill(Filling(tables, k), query, {});
    ASSERT_TRUE(filled.ok());
    ASSERT_FLOAT_EQ((*filled)[1][0], static_cast<float>(first / total)) << round;
  }
}

TEST(Filling, WhatCannotBeFilledIsAnError) {
  const Filling filling(history({0, 1}), 1);
  EXPECT_THAT(std::string(message(fill(filling, {}, {}).status())), HasSubstr("at least one"));
  EXPECT_THAT(std::string(message(fill(filling, {1, 2}, {}).status())),
              HasSubstr("gave 2 numbers, in the history 1"));
  EXPECT_THAT(std::string(message(fill(Filling(history({3})), {3}, {}, 0).status())),
              HasSubstr("no other query"));
}

}  // namespace
}  // namespace fermata::estimate
