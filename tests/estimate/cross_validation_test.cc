#include "estimate/cross_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/status.h"
#include "estimate/points.h"

namespace fermata::estimate {
namespace {

using ::testing::HasSubstr;

TEST(Folds, AreStratifiedAndOfOneSize) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    const auto classes = static_cast<uint32_t>(1 + random.below(6));
    const auto folds = static_cast<uint32_t>(2 + random.below(8));
    std::vector<uint32_t> labels(folds + random.below(200));
    for (uint32_t& label : labels) label = static_cast<uint32_t>(random.below(classes));
    const auto fold_of = stratified_folds(labels, classes, folds, Random(random.next()));
    std::vector<size_t> size(folds);
    std::vector<std::vector<size_t>> of_class(classes, std::vector<size_t>(folds));
    for (size_t row = 0; row < labels.size(); ++row) {
      ++size[fold_of[row]];
      ++of_class[labels[row]][fold_of[row]];
    }
    of_class.push_back(size);
    for (const auto& counts : of_class) {
      const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
      ASSERT_LE(*most - *least, 1u);
    }
    ASSERT_EQ(largest_k(labels.size(), folds),
              labels.size() - *std::max_element(size.begin(), size.end()));
  }
}

// Each fold's points asked one by one, each k anew.
std::vector<NeighborScore> naive(const LabelledPoints& points,
                                 const CrossValidationOptions& options, Random random) {
  const auto fold_of = stratified_folds(points.labels, points.classes, options.folds, random);
  std::vector<NeighborScore> by_k;
  for (uint32_t k = 1; k <= options.k_max; ++k) {
    NeighborScore score{.k = k};
    for (uint32_t row = 0; row < points.size(); ++row) {
      std::vector<uint32_t> rest;
      for (uint32_t other = 0; other < points.size(); ++other) {
        if (fold_of[other] != fold_of[row]) rest.push_back(other);
      }
      const Evidence evidence = Neighbors(subset(points, rest)).evidence(points.row(row), k);
      const uint32_t truth = points.labels[row];
      score.accuracy += evidence.answer == truth ? 1.0 / points.size() : 0;
      score.log_loss -=
          std::log((0.5 + evidence.counts[truth]) / (0.5 * points.classes + k)) / points.size();
    }
    by_k.push_back(score);
  }
  return by_k;
}

TEST(CrossValidation, IsThatOfANaiveOne) {
  Random random(2);
  for (int round = 0; round < 5; ++round) {
    const LabelledPoints points = clusters(60, 4, 3, 1.5, Random(random.next()));
    const CrossValidationOptions options{.folds = static_cast<uint32_t>(2 + random.below(5)),
                                         .k_max = 9};
    const auto result = cross_validate(points, options, Random(round));
    ASSERT_TRUE(result.ok()) << result.status();
    const auto expected = naive(points, options, Random(round));
    ASSERT_EQ(result->by_k.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(result->by_k[i].k, expected[i].k);
      EXPECT_NEAR(result->by_k[i].accuracy, expected[i].accuracy, 1e-12);
      EXPECT_NEAR(result->by_k[i].log_loss, expected[i].log_loss, 1e-9);
    }
  }
}

TEST(CrossValidation, PicksTheBestByItsCriterion) {
  const LabelledPoints points = clusters(400, 6, 3, 1.5, Random(9));
  CrossValidationOptions options{.k_max = 40};
  double last = -1;
  const auto by_accuracy = cross_validate(points, options, Random(1), [&last](double share) {
    EXPECT_GE(share, last);
    last = share;
  });
  ASSERT_TRUE(by_accuracy.ok());
  EXPECT_DOUBLE_EQ(last, 1);
  const auto& chosen = by_accuracy->by_k[by_accuracy->k - 1];
  for (const NeighborScore& score : by_accuracy->by_k) {
    EXPECT_LE(score.accuracy, chosen.accuracy);
    if (score.k < chosen.k) {
      EXPECT_LT(score.accuracy, chosen.accuracy);
    }
  }
  EXPECT_DOUBLE_EQ(*by_accuracy->confusion.accuracy(), chosen.accuracy);
  EXPECT_EQ(by_accuracy->confusion.examples(), points.size());
  options.criterion = Criterion::kLogLoss;
  const auto by_loss = cross_validate(points, options, Random(1));
  for (const NeighborScore& score : by_loss->by_k) {
    EXPECT_GE(score.log_loss, by_loss->by_k[by_loss->k - 1].log_loss);
  }
}

TEST(CrossValidation, IsTheSameEachTime) {
  const LabelledPoints points = clusters(200, 5, 4, 1, Random(3));
  for (const size_t exact_up_to : {size_t{0}, Neighbors::kExactUpTo}) {
    const CrossValidationOptions options{.k_max = 20, .exact_up_to = exact_up_to};
    const auto a = cross_validate(points, options, Random(5));
    const auto b = cross_validate(points, options, Random(5));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->k, b->k);
    EXPECT_TRUE(a->confusion == b->confusion);
    for (size_t i = 0; i < a->by_k.size(); ++i) {
      EXPECT_EQ(a->by_k[i].accuracy, b->by_k[i].accuracy);
      EXPECT_EQ(a->by_k[i].log_loss, b->by_k[i].log_loss);
    }
  }
}

TEST(CrossValidation, WhatDoesNotSuitThePointsIsTold) {
  const LabelledPoints points = clusters(10, 2, 2, 1, Random(1));
  const auto says = [&points](uint32_t folds, uint32_t k_max) {
    return std::string(
        message(cross_validate(points, {.folds = folds, .k_max = k_max}, Random(1)).status()));
  };
  EXPECT_THAT(says(1, 1), HasSubstr("folds is 1, expected 2 to 10"));
  EXPECT_THAT(says(11, 1), HasSubstr("folds is 11"));
  EXPECT_THAT(says(3, 7), HasSubstr("largest k is 7, expected 1 to 6"));
  EXPECT_THAT(says(3, 0), HasSubstr("largest k is 0"));
  EXPECT_EQ(says(3, 6), "");
}

TEST(LeaveOneOut, IsThatOfANaiveOne) {
  const LabelledPoints points = clusters(120, 4, 3, 1.5, Random(8));
  Confusion expected(3);
  for (uint32_t row = 0; row < points.size(); ++row) {
    std::vector<uint32_t> rest;
    for (uint32_t other = 0; other < points.size(); ++other) {
      if (other != row) rest.push_back(other);
    }
    expected.add(points.labels[row],
                 Neighbors(subset(points, rest)).evidence(points.row(row), 5).answer);
  }
  EXPECT_TRUE(leave_one_out(Neighbors(points), 5, 1000) == expected);
  EXPECT_EQ(leave_one_out(Neighbors(points), 5, 40).examples(), 40u);
}

TEST(LeaveOneOut, ManyCopiesOfAPointAreNotItself) {
  LabelledPoints points{.dimensions = 1, .classes = 2};
  points.features.assign(50, 0);
  points.labels.assign(50, 1);
  const Confusion confusion = leave_one_out(Neighbors(points), 3, 100);
  EXPECT_EQ(confusion.examples(), 50u);
  EXPECT_EQ(*confusion.accuracy(), 1);
  points = {.dimensions = 1, .classes = 1, .features = {1}, .labels = {0}};
  EXPECT_FALSE(leave_one_out(Neighbors(points), 3, 100).accuracy().has_value());
}

}  // namespace
}  // namespace fermata::estimate
