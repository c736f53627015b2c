#include "estimate/difficulty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/random.h"
#include "base/status.h"
#include "estimate/difficulty_document.h"
#include "places/places.h"

namespace fermata::estimate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kNames = {"a", "b", "c", "d", "e"};

EnsembleHistory history(const Aggregator& aggregator, uint32_t models, uint32_t width, size_t n) {
  Random random(3);
  EnsembleHistory made{.by_model = std::vector<OutputTable>(models, {.width = width})};
  for (size_t i = 0; i < n * width; ++i) {
    const double truth = random.normal();
    for (OutputTable& table : made.by_model) {
      table.values.push_back(static_cast<float>(truth + 0.3 * random.normal()));
    }
  }
  std::vector<uint32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  made.ensemble = *aggregate_rows(aggregator, made.by_model, all_models(models), rows);
  return made;
}

absl::StatusOr<DifficultyFit> fit(const Aggregator& aggregator, const EnsembleHistory& history,
                                  const DifficultyOptions& options = {}) {
  const std::vector<std::string> models(kNames.begin(), kNames.begin() + history.by_model.size());
  return fit_difficulty(
      "e", models, aggregator, history,
      [&](Subset subset, absl::Span<const uint32_t> rows) {
        return aggregate_rows(aggregator, history.by_model, subset, rows);
      },
      options);
}

const Aggregator kNumbers{.prediction = Prediction::kRegression};

TEST(FitDifficulty, OfClassesCountsWhereTheAnswerIsTheEnsembles) {
  const Aggregator aggregator;
  const EnsembleHistory made = history(aggregator, 3, 4, 400);
  const auto result = fit(aggregator, made, {.bins = 4});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->profile.temperatures.size(), 3u);
  EXPECT_EQ(result->profile.ensemble_temperature, 1) << "there are no labels";
  EXPECT_THAT(result->profile.discrepancy.profile.counts, ElementsAre(100, 100, 100, 100));
  for (size_t i = 0; i < 400; ++i) {
    ASSERT_EQ(result->answers.right(i, 0b010),
              class_of(made.by_model[1].row(i)) == class_of(made.ensemble.row(i)));
    ASSERT_TRUE(result->answers.right(i, 0b111));
    ASSERT_FALSE(result->answers.right(i, 0));
  }
  const auto& bins = result->profile.discrepancy.profile.utilities;
  EXPECT_GT(bins.front()[0b001], bins.back()[0b001] + 0.1) << "the difficult ones need more models";
}

TEST(FitDifficulty, LabelsMoveTheTemperatures) {
  EnsembleHistory made = history({}, 2, 3, 200);
  const double without = fit({}, made)->profile.temperatures[0];
  Random random(5);
  for (size_t i = 0; i < 200; ++i) made.labels.push_back(static_cast<uint32_t>(random.below(3)));
  const DifficultyProfile with = fit({}, made)->profile;
  EXPECT_GT(with.temperatures[0], 2 * without) << "labels at random: nothing is sure";
  EXPECT_GT(with.ensemble_temperature, 2);
}

TEST(FitDifficulty, OfNumbersCountsWhatIsNear) {
  const EnsembleHistory made{
      .by_model = {{.width = 1, .values = {0, 2, 10}}, {.width = 1, .values = {0, 4, 30}}},
      .ensemble = {.width = 1, .values = {0, 3, 20}}};
  // The ensemble's standard deviation is √(((23/3)² + (14/3)² + (37/3)²) / 3) = 8.8066...
  const auto result = fit(kNumbers, made, {.tolerance = 0.5});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->profile.tolerance, 4.4033, 1e-4);
  EXPECT_TRUE(result->answers.right(1, 0b01));
  EXPECT_FALSE(result->answers.right(2, 0b01));
  const auto near = fit(kNumbers, made, {.within = 0.5});
  EXPECT_EQ(near->profile.tolerance, 0.5);
  EXPECT_FALSE(near->answers.right(1, 0b01));
  EXPECT_TRUE(near->answers.right(0, 0b10));
}

TEST(FitDifficulty, OfManyModelsLargerSubsetsAreSampled) {
  const EnsembleHistory made = history(kNumbers, 5, 1, 300);
  const auto result = fit(kNumbers, made);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->answers.tried(299, 0b11000));
  EXPECT_EQ(result->profile.discrepancy.profile.gamma.size(),
            result->profile.discrepancy.profile.bins());
  EXPECT_EQ(fit(kNumbers, made, {.exact_up_to = 5})->profile.agreement.profile.gamma.size(), 0u);
}

TEST(FitDifficulty, HistoriesThatDoNotFitAreErrors) {
  const auto says = [](const EnsembleHistory& made, const Aggregator& aggregator = {}) {
    return std::string(message(fit(aggregator, made).status()));
  };
  const EnsembleHistory good = history({}, 2, 3, 10);
  EXPECT_THAT(says({.by_model = {{.width = 2}}, .ensemble = {.width = 2}}),
              HasSubstr("the history is empty"));
  EnsembleHistory bad = good;
  bad.by_model[1].values[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(says(bad), HasSubstr("model 1: output 1, column 1 is nan"));
  bad = good;
  bad.by_model[1].values.resize(27);
  EXPECT_THAT(says(bad), HasSubstr("model 1 has 9 outputs, model 0 has 10"));
  bad = good;
  bad.labels.assign(10, 3);
  EXPECT_THAT(says(bad), HasSubstr("query 0 has label 3, but the classes are 0 to 2"));
  EXPECT_THAT(says(bad, kNumbers), HasSubstr("regression has no classes"));
  bad.labels.resize(2);
  EXPECT_THAT(says(bad), HasSubstr("2 labels for 10 queries"));
  EXPECT_THAT(says(history({}, 2, 1, 10)), HasSubstr("two or more classes"));
}

// What a document says when one place of it is another's.
std::string says(const DifficultyProfile& profile, const std::string& pointer, const Json& value) {
  Json json = difficulty_json(profile);
  Json::json_pointer at(pointer);
  if (value.is_discarded()) {
    json[at.parent_pointer()].erase(at.back());
  } else {
    json[at] = value;
  }
  const auto result = parse_difficulty(json.dump(), "p.json");
  return result.ok() ? "" : std::string(message(result.status()));
}

TEST(DifficultyDocument, ReadsBack) {
  for (const uint32_t models : {1u, 3u, 5u}) {
    for (const Aggregator& aggregator : {Aggregator{}, kNumbers}) {
      const DifficultyProfile profile =
          fit(aggregator, history(aggregator, models, 2, 120))->profile;
      const std::string text = write_json(difficulty_json(profile));
      const auto again = parse_difficulty(text, "p.json");
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(write_json(difficulty_json(*again)), text);
      EXPECT_EQ(again->discrepancy.profile.utilities, profile.discrepancy.profile.utilities);
      EXPECT_EQ(again->agreement.profile.gamma, profile.agreement.profile.gamma);
    }
  }
}

TEST(DifficultyDocument, ReadsThoseOfTheZoo) {
  const std::string zoo = project_folder() + "/zoo/data/";
  for (const std::string ensemble : {"scans-averaged", "scans-stacked"}) {
    const std::string file = zoo + ensemble + "/profile.json";
    const auto profile = parse_difficulty(*read_file(file, 1 << 20), file);
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->name, ensemble);
    const SubsetProfile& subsets = profile->discrepancy.profile;
    EXPECT_EQ(subsets.of(0)[1], 1) << "any model answers the easiest";
    EXPECT_LT(subsets.of(1)[1], 0.8);
  }
}

TEST(DifficultyDocument, SaysWhatIsWrong) {
  const DifficultyProfile profile = fit({}, history({}, 2, 3, 120))->profile;
  const Json gone(Json::value_t::discarded);
  const std::string bin = "/measures/discrepancy/bins/0";
  EXPECT_EQ(says(profile, bin + "/utility/a", 0.5), "");
  EXPECT_THAT(says(profile, bin + "/utility/a+b", gone),
              HasSubstr("expected all 3 subsets: 'a+b' is missing"));
  EXPECT_THAT(says(profile, bin + "/utility/a", 1.5), HasSubstr(".utility.a"));
  EXPECT_THAT(says(profile, bin + "/utility/b+a", 1), HasSubstr("models in the ensemble's order"));
  EXPECT_THAT(says(profile, bin + "/gamma", {1, 1}), HasSubstr("gamma"));
  EXPECT_THAT(says(profile, "/measures/discrepancy/edges", Json::array()),
              HasSubstr("one bin more"));
  EXPECT_THAT(says(profile, "/measures/agreement/norms", {1, 2}), HasSubstr("1 numbers"));
  EXPECT_THAT(says(profile, "/measures/agreement", gone), HasSubstr("$.measures.agreement"));
  EXPECT_THAT(says(profile, "/temperatures", {1}), HasSubstr("one number for each model"));
  EXPECT_THAT(says(profile, "/temperatures/0", 0), HasSubstr("$.temperatures[0]"));
  EXPECT_THAT(says(profile, "/models", {"a", "a"}), HasSubstr("stand there already"));
  EXPECT_THAT(says(profile, "/models", {"a", "b+c"}), HasSubstr("without +"));
  EXPECT_THAT(says(profile, "/models", Json(std::vector<std::string>(9, "m"))),
              HasSubstr("stand there already"));
  EXPECT_THAT(says(profile, "/weights", {1, 2}), HasSubstr("aggregation is average"));
  EXPECT_THAT(says(profile, "/aggregation", "mean"), HasSubstr("$.aggregation"));
  EXPECT_THAT(says(profile, "/aggregation", "stacking"), HasSubstr("$.neighbors"));
  EXPECT_THAT(says(profile, "/neighbors", 5), HasSubstr("nothing is filled"));
  EXPECT_THAT(says(profile, "/task", "regression"), HasSubstr("regression has no scores"));
  EXPECT_THAT(says(profile, "/format", 2), HasSubstr("$.format"));
}

}  // namespace
}  // namespace fermata::estimate
