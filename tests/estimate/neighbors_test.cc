#include "estimate/neighbors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/status.h"
#include "estimate/points.h"

namespace fermata::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every row, sorted by distance in double precision, then by row.
std::vector<uint32_t> naive(const LabelledPoints& points, const std::vector<float>& query,
                            size_t k) {
  std::vector<std::pair<double, uint32_t>> all;
  for (uint32_t row = 0; row < points.size(); ++row) {
    double sum = 0;
    for (uint32_t d = 0; d < points.dimensions; ++d) {
      const double difference = double{points.row(row)[d]} - double{query[d]};
      sum += difference * difference;
    }
    all.emplace_back(sum, row);
  }
  std::sort(all.begin(), all.end());
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < std::min(k, all.size()); ++i) rows.push_back(all[i].second);
  return rows;
}

TEST(Neighbors, AreThoseOfANaiveSearch) {
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    const auto dimensions = static_cast<uint32_t>(1 + random.below(40));
    const auto n = 1 + random.below(300);
    LabelledPoints points = clusters(n, dimensions, 3, 2, Random(random.next()));
    // Whole numbers, so that single precision is exact and ties are common.
    for (float& value : points.features) value = std::round(value);
    const Neighbors neighbors(points);
    ASSERT_TRUE(neighbors.exact());
    for (int i = 0; i < 10; ++i) {
      std::vector<float> query = point(dimensions, random);
      for (float& value : query) value = std::round(value);
      const auto k = static_cast<uint32_t>(random.below(n + 5));
      ASSERT_EQ(neighbors.nearest(query, k), naive(points, query, k)) << round << " " << i;
    }
  }
}

TEST(Neighbors, TheGraphFindsNearlyAll) {
  const LabelledPoints points = clusters(3000, 16, 5, 4, Random(3));
  const Neighbors exact(points), graph(points, 0);
  ASSERT_FALSE(graph.exact());
  Random random(4);
  size_t found = 0, all = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<float> query = point(16, random, 2);
    const auto a = exact.nearest(query, 10), b = graph.nearest(query, 10);
    ASSERT_EQ(b.size(), 10u);
    all += a.size();
    for (const uint32_t row : a) found += std::count(b.begin(), b.end(), row);
  }
  EXPECT_GE(static_cast<double>(found) / static_cast<double>(all), 0.99);
}

TEST(Neighbors, TheGraphIsTheSameEachTime) {
  const LabelledPoints points = clusters(500, 8, 3, 1, Random(5));
  double built = 0;
  const Neighbors first(points, 0), second(points, 0, [&built](double share) { built = share; });
  EXPECT_EQ(built, 1);
  Random random(6);
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> query = point(8, random);
    EXPECT_EQ(first.nearest(query, 7), second.nearest(query, 7));
  }
}

TEST(Neighbors, CopiesOfOnePointAreAllFound) {
  LabelledPoints points{.dimensions = 2, .classes = 1};
  points.features.assign(600, 1);
  points.labels.assign(300, 0);
  const Neighbors graph(points, 0);
  EXPECT_EQ(graph.nearest({1, 1}, 200).size(), 200u);
  EXPECT_EQ(graph.nearest({1, 1}, 1000).size(), 300u);
}

TEST(Evidence, CountsClassesAndAnswersWithTheNearestOfEquals) {
  const LabelledPoints points{1, 3, {0, 1, 2, 3, 4}, {2, 0, 0, 2, 1}};
  const Neighbors neighbors(points);
  // The paper's example: of k = 5 neighbours, so many have each label.
  const Evidence all = neighbors.evidence({0}, 5);
  EXPECT_THAT(all.counts, ElementsAre(2, 1, 2));
  EXPECT_EQ(all.answer, 2u);
  EXPECT_EQ(neighbors.evidence({4}, 5).answer, 2u);  // 1 is nearest, then 2, then 0
  EXPECT_EQ(neighbors.evidence({1.4F}, 2).answer, 0u);
  EXPECT_THAT(neighbors.evidence({4}, 1).counts, ElementsAre(0, 1, 0));
  EXPECT_THAT(neighbors.evidence({4}, 0).counts, ElementsAre(0, 0, 0));
}

template <class T>
Tensor tensor(std::string name, DataType type, Shape shape, std::vector<T> values) {
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(name),
          type,
          std::move(shape),
          {{reinterpret_cast<const std::byte*>(owner->data()), owner->size() * sizeof(T)}, owner}};
}
Tensor features(Shape shape, std::vector<float> values) {
  return tensor("x.npy", DataType::kFp32, std::move(shape), std::move(values));
}
Tensor labels(Shape shape, std::vector<int64_t> values) {
  return tensor("y.npy", DataType::kInt64, std::move(shape), std::move(values));
}

TEST(LabelledPoints, RowsAreFlattened) {
  const auto points =
      labelled_points(features({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), labels({2, 1}, {3, 0}));
  ASSERT_TRUE(points.ok()) << points.status();
  EXPECT_EQ(points->dimensions, 4u);
  EXPECT_EQ(points->classes, 4u);
  EXPECT_THAT(points->row(1), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(subset(*points, {1, 1}).labels, ElementsAre(0, 0));
}

TEST(LabelledPoints, WhatDoesNotFitIsTold) {
  const auto says = [](const Tensor& x, const Tensor& y, uint32_t classes = 0) {
    return std::string(message(labelled_points(x, y, classes).status()));
  };
  const Tensor good = features({2, 1}, {1, 2});
  EXPECT_THAT(says(good, labels({3}, {0, 1, 0})), HasSubstr("y.npy: has 3 labels, expected 2"));
  EXPECT_THAT(says(good, labels({2}, {0, -1})), HasSubstr("y.npy: row 1 has label -1"));
  EXPECT_THAT(says(good, labels({2}, {0, 2}), 2), HasSubstr("expected a class from 0 to 1"));
  EXPECT_THAT(says(good, labels({2}, {0, 5000})), HasSubstr("expected a class from 0 to 1023"));
  EXPECT_THAT(says(good, labels({1, 2}, {0, 1})), HasSubstr("y.npy: has shape [1,2]"));
  EXPECT_THAT(says(good, features({2}, {0, 1})), HasSubstr("expected whole numbers"));
  EXPECT_THAT(says(features({2}, {1, 2}), labels({2}, {0, 1})), HasSubstr("x.npy: has shape [2]"));
  EXPECT_THAT(says(features({0, 1}, {}), labels({0}, {})), HasSubstr("n and d from 1"));
  EXPECT_THAT(says(features({2, 0}, {}), labels({2}, {0, 0})), HasSubstr("n and d from 1"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(says(features({2, 2}, {1, 2, 3, nan}), labels({2}, {0, 1})),
              HasSubstr("x.npy: row 1, column 1 is nan"));
  EXPECT_THAT(says(tensor<double>("x.npy", DataType::kFp64, {1, 1}, {1e300}), labels({1}, {0})),
              HasSubstr("row 0, column 0 is inf"));
}

}  // namespace
}  // namespace fermata::estimate
