#include "estimate/subset_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "estimate/aggregation.h"
#include "estimate/difficulty.h"

namespace fermata::estimate {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;

TEST(QuantileEdges, HoldEquallyMany) {
  std::vector<float> scores(100);
  std::iota(scores.begin(), scores.end(), 0.0F);
  std::reverse(scores.begin(), scores.end());
  EXPECT_THAT(quantile_edges(scores, 4, 1), ElementsAre(25, 50, 75));
  EXPECT_THAT(quantile_edges(scores, 1, 1), IsEmpty());
  EXPECT_THAT(quantile_edges(scores, 4, 30), ElementsAre(50)) << "25 in a bin are too few";
}

TEST(QuantileEdges, EqualScoresAreInOneBin) {
  // 0 six times, 1 twice, 2 twice: quarters would be at 0, 0 and 1.
  const std::vector<float> scores = {0, 0, 0, 0, 0, 0, 1, 1, 2, 2};
  EXPECT_THAT(quantile_edges(scores, 4, 1), ElementsAre(1));
  EXPECT_THAT(quantile_edges(scores, 10, 1), ElementsAre(1, 2));
  EXPECT_THAT(quantile_edges(std::vector<float>(5, 0.5F), 3, 1), IsEmpty());
}

TEST(SubsetProfile, BinsStartAtTheirEdge) {
  const SubsetProfile profile{
      .edges = {0.25, 0.5}, .counts = {1, 1, 2}, .utilities = {{0, 1}, {0, 0.8}, {0, 0.5}}};
  EXPECT_EQ(profile.bin_of(0.1), 0u);
  EXPECT_EQ(profile.bin_of(0.25), 1u);
  EXPECT_EQ(profile.bin_of(7), 2u);
  EXPECT_EQ(profile.of(0.3)[1], 0.8);
  EXPECT_THAT(profile.expected(), ElementsAre(0, 0.7));
}

TEST(SubsetProfile, CountsRightAnswersByBin) {
  SubsetAnswers answers(2, 4);
  for (size_t i = 0; i < 4; ++i) {
    answers.set(i, 0b01, i != 3);
    answers.set(i, 0b10, i < 1);
  }
  const SubsetProfile profile = profile_subsets(answers, {0.1F, 0.2F, 0.6F, 0.9F}, {0.5});
  EXPECT_THAT(profile.counts, ElementsAre(2, 2));
  EXPECT_THAT(profile.utilities, ElementsAre(ElementsAre(0, 1, 0.5, 1), ElementsAre(0, 0.5, 0, 1)));
  EXPECT_THAT(profile.gamma, IsEmpty());
}

TEST(SubsetProfile, MonotoneRaisesToTheBestPart) {
  std::vector<double> u = {0, 0.7, 0.5, 0.6, 0.2, 0.9, 0.1, 0.8};
  make_monotone(absl::MakeSpan(u));
  EXPECT_THAT(u, ElementsAre(0, 0.7, 0.5, 0.7, 0.2, 0.9, 0.5, 0.9));
}

TEST(SubsetProfile, SampledSubsetsComeWithTheirMoreAccurateParts) {
  const std::vector<double> accuracies = {0.5, 0.9, 0.6, 0.8, 0.7, 0.4};
  const std::vector<Subset> subsets = subsets_to_sample(accuracies, Random(1));
  for (const Subset subset : subsets) {
    ASSERT_GE(size_of(subset), 3u);
    ASSERT_LT(size_of(subset), 6u);
    if (size_of(subset) == 3) continue;
    uint32_t worst = 0;
    for (uint32_t k = 0; k < 6; ++k) {
      if (contains(subset, k) && (!contains(subset, worst) || accuracies[k] < accuracies[worst])) {
        worst = k;
      }
    }
    EXPECT_THAT(subsets, testing::Contains(subset & ~only(worst)));
  }
  EXPECT_TRUE(
      std::any_of(subsets.begin(), subsets.end(), [](Subset s) { return size_of(s) == 5; }));
}

// Equation 3, by hand: four models of one bin, two of the triples not tried.
TEST(SubsetProfile, EstimatesLargerSubsets) {
  const std::vector<float> scores(100, 0.5F);
  SubsetAnswers answers(4, scores.size());
  const auto set_percent = [&](Subset subset, size_t right) {
    for (size_t i = 0; i < scores.size(); ++i) answers.set(i, subset, i < right);
  };
  // Models 0 to 3 have 80, 70, 60 and 50; a pair has the better one's and 10 more.
  for (uint32_t k = 0; k < 4; ++k) set_percent(only(k), 80 - 10 * k);
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = a + 1; b < 4; ++b) set_percent(only(a) | only(b), 90 - 10 * a);
  }
  // Each pair with a third model gains 10 on average by equation 3; these do 6 and 3.
  set_percent(0b0111, 96);
  set_percent(0b1011, 93);
  const SubsetProfile profile = profile_subsets(answers, scores, {});
  ASSERT_EQ(profile.gamma.size(), 1u);
  ASSERT_EQ(profile.gamma[0].size(), 3u);
  EXPECT_NEAR(profile.gamma[0][2], 0.45, 1e-9);
  const std::vector<double>& utility = profile.utilities[0];
  EXPECT_NEAR(utility[0b0111], 0.96, 1e-9) << "measured";
  EXPECT_NEAR(utility[0b1101], 0.9 + 0.45 * 0.1, 1e-9);
  EXPECT_NEAR(utility[0b1110], 0.8 + 0.45 * 0.1, 1e-9);
  EXPECT_EQ(utility[0b1111], 1);
}

// Made-up classifiers of unlike accuracy on queries of unlike difficulty, averaged.
std::vector<OutputTable> made_up(uint32_t models, size_t queries, std::vector<float>& difficulty) {
  constexpr uint32_t kClasses = 4;
  Random random(7);
  std::vector<OutputTable> tables(models, OutputTable{.width = kClasses});
  for (size_t i = 0; i < queries; ++i) {
    const double hard = random.uniform();
    difficulty.push_back(static_cast<float>(hard));
    const auto truth = random.below(kClasses);
    for (uint32_t k = 0; k < models; ++k) {
      for (uint32_t c = 0; c < kClasses; ++c) {
        const double noise = (0.3 + 0.1 * k + 2.5 * hard * hard) * random.normal();
        tables[k].values.push_back(static_cast<float>((c == truth ? 2 : 0) + noise));
      }
    }
  }
  return tables;
}

// As figure 20a of the paper has it; here half of the queries are hard.
TEST(SubsetProfile, EstimatesAreNearTheTruth) {
  constexpr uint32_t kModels = 6;
  constexpr size_t kQueries = 6000;
  EnsembleHistory history;
  std::vector<float> difficulty;
  history.by_model = made_up(kModels, kQueries, difficulty);
  const Aggregator aggregator{.aggregation = Aggregation::kAverage};
  std::vector<uint32_t> rows(kQueries);
  std::iota(rows.begin(), rows.end(), 0);
  history.ensemble = *aggregate_rows(aggregator, history.by_model, all_models(kModels), rows);
  const auto outputs_of = [&](Subset subset, absl::Span<const uint32_t> some) {
    return aggregate_rows(aggregator, history.by_model, subset, some);
  };
  const auto fit = [&](uint32_t exact_up_to) {
    return *fit_difficulty("e", std::vector<std::string>{"a", "b", "c", "d", "e", "f"}, aggregator,
                           history, outputs_of, {.bins = 5, .exact_up_to = exact_up_to});
  };
  const DifficultyFit estimated = fit(4), exact = fit(kModels);
  EXPECT_THAT(exact.profile.discrepancy.profile.gamma, IsEmpty());
  const SubsetProfile& a = estimated.profile.discrepancy.profile;
  const SubsetProfile& b = exact.profile.discrepancy.profile;
  ASSERT_EQ(a.edges, b.edges);
  ASSERT_EQ(a.gamma.size(), 5u);
  double squares = 0, worst = 0;
  size_t count = 0;
  for (size_t bin = 0; bin < a.bins(); ++bin) {
    for (Subset s = 1; s <= all_models(kModels); ++s) {
      const double error = a.utilities[bin][s] - b.utilities[bin][s];
      if (size_of(s) <= 2 || size_of(s) == kModels) {
        ASSERT_EQ(error, 0) << s;
        continue;
      }
      squares += error * error;
      worst = std::max(worst, std::abs(error));
      ++count;
    }
  }
  RecordProperty("mse", std::to_string(squares / static_cast<double>(count)));
  EXPECT_LT(squares / static_cast<double>(count), 3e-4);
  EXPECT_LT(worst, 0.1);
}

}  // namespace
}  // namespace fermata::estimate
