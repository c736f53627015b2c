#include "estimate/competence.h"

#include <gtest/gtest.h>

#include <vector>

namespace fermata::estimate {
namespace {

// Points on a line: their place, their class, the models that are right there.
struct Point {
  float at;
  uint32_t label;
  Subset right;
};

Competence competence(const std::vector<Point>& points, uint32_t models, uint32_t k) {
  LabelledPoints history{.dimensions = 1, .classes = 3};
  std::vector<Subset> right;
  for (const Point& point : points) {
    history.features.push_back(point.at);
    history.labels.push_back(point.label);
    right.push_back(point.right);
  }
  return Competence(history, right, models, k);
}

TEST(Competence, TakesModelsThatAreRightAllAround) {
  const Competence des =
      competence({{0, 0, 0b01}, {1, 0, 0b01}, {10, 0, 0b10}, {11, 0, 0b10}}, 2, 2);
  EXPECT_EQ(des.select({0.4F}), 0b01u);
  EXPECT_EQ(des.select({10.4F}), 0b10u);
}

TEST(Competence, TheRegionShrinksUntilOneIsRightOnAll) {
  // Nobody is right on all three; model 1 is on the nearest two.
  const Competence des = competence({{0, 0, 0b11}, {1, 0, 0b10}, {2, 0, 0b01}}, 2, 3);
  EXPECT_EQ(des.select({-1}), 0b10u);
}

TEST(Competence, WhereNobodyIsRightAllAreTaken) {
  EXPECT_EQ(competence({{0, 0, 0}, {1, 0, 0b01}}, 3, 2).select({0}), 0b111u);
}

TEST(Competence, TheRegionHasEqualPartsOfEveryClass) {
  // Two of each class around 0, although class 1 stands far off; model 0 knows class 0 only,
  // so it crosses no pair of frienemies.
  const std::vector<Point> points = {{0, 0, 0b11},    {0.1F, 0, 0b01}, {0.2F, 0, 0b01},
                                     {0.3F, 0, 0b01}, {5, 1, 0b10},    {6, 1, 0b10}};
  EXPECT_EQ(competence(points, 2, 4).select({0}), 0b10u);
  // Of one class alone there are no frienemies and nothing is pruned.
  EXPECT_EQ(competence({points.begin(), points.begin() + 4}, 2, 4).select({0}), 0b01u);
}

TEST(Competence, WithFewerNeighboursThanClassesTheNearestCount) {
  const std::vector<Point> points = {{0, 0, 0b01}, {1, 1, 0b01}, {9, 2, 0b10}};
  EXPECT_EQ(competence(points, 2, 2).select({0}), 0b01u);
}

TEST(Competence, WherePruningTakesAllItTakesNone) {
  EXPECT_EQ(competence({{0, 0, 0b01}, {1, 1, 0b10}}, 2, 2).select({0}), 0b01u);
}

}  // namespace
}  // namespace fermata::estimate
