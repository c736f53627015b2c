#include "estimate/aggregation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/status.h"
#include "estimate/output_table.h"

namespace fermata::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;

using Row = std::vector<float>;

absl::StatusOr<Row> combine(Aggregation kind, const std::vector<Row>& rows,
                            std::vector<double> weights = {}) {
  const std::vector<absl::Span<const float>> outputs(rows.begin(), rows.end());
  return aggregate({.aggregation = kind, .weights = std::move(weights)}, outputs);
}

TEST(Aggregation, VotesCountClasses) {
  const std::vector<Row> rows = {{0.9F, 0.1F, 0}, {0.2F, 0.3F, 0.5F}, {0, 0.4F, 0.6F}};
  EXPECT_THAT(*combine(Aggregation::kVote, rows),
              ElementsAre(FloatEq(1 / 3.F), 0, FloatEq(2 / 3.F)));
  EXPECT_THAT(*combine(Aggregation::kWeightedVote, rows, {3, 1, 1}),
              ElementsAre(FloatEq(0.6F), 0, FloatEq(0.4F)));
}

TEST(Aggregation, AMissingVoteIsLeftOutAndTiesGoToTheLowerClass) {
  const Row output = *combine(Aggregation::kVote, {{0, 0, 1}, {}, {0, 1, 0}});
  EXPECT_THAT(output, ElementsAre(0, 0.5F, 0.5F));
  EXPECT_EQ(class_of(output), 1u);
  EXPECT_THAT(*combine(Aggregation::kVote, {{2, 2}}), ElementsAre(1, 0)) << "equal scores too";
}

TEST(Aggregation, AveragesAreRescaledToWhatIsThere) {
  EXPECT_THAT(*combine(Aggregation::kAverage, {{1, 2}, {}, {3, 8}}), ElementsAre(2, 5));
  // (1·2 + 3·6) / (1 + 3): the model of weight 5 is missing.
  EXPECT_THAT(*combine(Aggregation::kWeightedAverage, {{2}, {}, {6}}, {1, 5, 3}), ElementsAre(5));
}

TEST(Aggregation, StackingGetsAllOutputsInARow) {
  const Row a = {1, 2}, b = {3};
  EXPECT_THAT(meta_input(std::vector<absl::Span<const float>>{a, b}), ElementsAre(1, 2, 3));
}

TEST(Aggregation, OutputsThatDoNotFitAreErrors) {
  const auto says = [](const std::vector<Row>& rows) {
    return std::string(message(combine(Aggregation::kAverage, rows).status()));
  };
  EXPECT_THAT(says({{}, {}}), HasSubstr("no base model gave an output"));
  EXPECT_THAT(says({{1, 2}, {1}}), HasSubstr("base model 1 gave 1 numbers"));
  EXPECT_THAT(says({{1}, {std::numeric_limits<float>::quiet_NaN()}}), HasSubstr("not finite"));
}

TEST(Aggregation, WeightsSuitTheKind) {
  const auto says = [](Aggregator aggregator) { return std::string(message(aggregator.check(2))); };
  EXPECT_EQ(says({.aggregation = Aggregation::kWeightedVote, .weights = {1, 2}}), "");
  EXPECT_THAT(says({.aggregation = Aggregation::kVote, .weights = {1, 2}}), HasSubstr("is vote"));
  EXPECT_THAT(says({.aggregation = Aggregation::kWeightedAverage, .weights = {1}}),
              HasSubstr("1 weights, expected 2"));
  EXPECT_THAT(says({.aggregation = Aggregation::kWeightedAverage, .weights = {1, 0}}),
              HasSubstr("above 0"));
  EXPECT_THAT(says({.prediction = Prediction::kRegression, .aggregation = Aggregation::kVote}),
              HasSubstr("cannot be voted on"));
}

TEST(Aggregation, NamesReadBack) {
  for (const std::string_view text : kAggregationNames) {
    EXPECT_EQ(name(*parse_aggregation(text)), text);
  }
  EXPECT_FALSE(parse_aggregation("mean").has_value());
  EXPECT_EQ(parse_prediction("regression"), Prediction::kRegression);
}

TEST(Subset, IsNamedInTheEnsemblesOrder) {
  const std::vector<std::string> models = {"a", "b", "c"};
  EXPECT_EQ(name(0b101, models), "a+c");
  EXPECT_EQ(name(all_models(3), models), "a+b+c");
  EXPECT_EQ(name(0, models), "");
}

}  // namespace
}  // namespace fermata::estimate
