#include "estimate/discrepancy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fermata::estimate {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::FloatNear;

TEST(Divergence, ByHand) {
  using P = std::vector<double>;
  EXPECT_EQ(jensen_shannon(P{0.3, 0.7}, P{0.3, 0.7}), 0);
  EXPECT_DOUBLE_EQ(jensen_shannon(P{1, 0}, P{0, 1}), 1);
  // m = (3/4, 1/4): ½ log2(4/3) + ½ (½ log2(2/3) + ½ log2(2)) = 0.311278...
  EXPECT_NEAR(jensen_shannon(P{1, 0}, P{0.5, 0.5}), 0.3112781244591328, 1e-15);
  // (0.8 - 0.4) ln(0.8/0.4) + (0.2 - 0.6) ln(0.2/0.6) = 0.4 ln 6.
  EXPECT_NEAR(symmetric_kullback_leibler(P{0.8, 0.2}, P{0.4, 0.6}), 0.4 * std::log(6), 1e-15);
  EXPECT_TRUE(std::isfinite(symmetric_kullback_leibler(P{1, 0}, P{0, 1})));
}

// Three numbers models on three queries; the ensemble is their mean.
struct Numbers {
  std::vector<OutputTable> by_model = {{.width = 1, .values = {0, 1, 3}},
                                       {.width = 1, .values = {0, 3, 3}},
                                       {.width = 1, .values = {0, 2, 9}}};
  OutputTable ensemble{.width = 1, .values = {0, 2, 5}};
};

TEST(Discrepancy, OfNumbersByHand) {
  const Numbers n;
  const Distances d = measure_distances(Prediction::kRegression, n.by_model, n.ensemble, {});
  EXPECT_THAT(d.by_model,
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 1, 2), ElementsAre(0, 0, 4)));
  EXPECT_THAT(d.between, ElementsAre(0, DoubleNear(4 / 3., 1e-12), DoubleNear(4, 1e-12)));
  const Difficulty by_discrepancy = discrepancy(d);
  EXPECT_THAT(by_discrepancy.norms, ElementsAre(1, 1, DoubleNear(4 / 3., 1e-12)));
  // v = (1 + 1 + 0) / 3 and (2 + 2 + 3) / 3; v / (1 + v).
  EXPECT_THAT(by_discrepancy.scores,
              ElementsAre(0, FloatNear(0.4F, 1e-6F), FloatNear(0.7F, 1e-6F)));
  // Mean 16/9: v = 0.75 and 2.25.
  EXPECT_THAT(agreement(d).scores,
              ElementsAre(0, FloatNear(3 / 7.F, 1e-6F), FloatNear(9 / 13.F, 1e-6F)));
}

TEST(Discrepancy, AModelThatIsAlwaysTheEnsembleSaysNothing) {
  const Distances d{.by_model = {{0, 0}, {1, 3}}, .between = {0, 0}};
  EXPECT_THAT(discrepancy(d).norms, ElementsAre(0, 2));
  EXPECT_THAT(discrepancy(d).scores,
              ElementsAre(FloatNear(0.2F, 1e-6F), FloatNear(3 / 7.F, 1e-6F)));
  EXPECT_THAT(agreement(d).scores, ElementsAre(0, 0));
}

// Section V-A: of three binary classifiers the first is the worst. That it alone dissents
// makes a query less difficult than that a better one does, which agreement cannot see.
TEST(Discrepancy, TheDissentOfABadModelWeighsLess) {
  std::vector<OutputTable> by_model(3, OutputTable{.width = 2});
  OutputTable ensemble{.width = 2};
  const auto query = [&](std::vector<int> votes) {
    int ones = 0;
    for (size_t k = 0; k < 3; ++k) {
      const float p = votes[k] == 1 ? 0.9F : 0.1F;
      by_model[k].values.insert(by_model[k].values.end(), {1 - p, p});
      ones += votes[k];
    }
    const float p = ones >= 2 ? 0.9F : 0.1F;
    ensemble.values.insert(ensemble.values.end(), {1 - p, p});
  };
  query({0, 1, 1});
  query({1, 0, 1});
  for (int i = 0; i < 5; ++i) query({0, 1, 1});  // it is wrong more often
  query({1, 1, 0});
  for (int i = 0; i < 20; ++i) query({1, 1, 1});
  const std::vector<double> temperatures(4, 1);
  const Distances d =
      measure_distances(Prediction::kClassification, by_model, ensemble, temperatures);
  const Difficulty score = discrepancy(d);
  EXPECT_GT(score.norms[0], 5 * score.norms[1]);
  EXPECT_LT(score.scores[0], score.scores[1]);
  EXPECT_EQ(score.scores.back(), 0);
  EXPECT_EQ(agreement(d).scores[0], agreement(d).scores[1]);
}

}  // namespace
}  // namespace fermata::estimate
