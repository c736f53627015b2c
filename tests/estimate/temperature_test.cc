#include "estimate/temperature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace fermata::estimate {
namespace {

// Logits whose classes are drawn from softmax(z), then stated `times` too large.
struct Sample {
  OutputTable logits, probabilities;
  std::vector<uint32_t> classes;

  std::vector<double> targets() const { return one_hot(classes, logits.width); }
};

Sample sample(double times, uint32_t width, size_t n, Random random) {
  Sample result{.logits = {.width = width}, .probabilities = {.width = width}};
  for (size_t i = 0; i < n; ++i) {
    std::vector<float> z;
    for (uint32_t c = 0; c < width; ++c) z.push_back(static_cast<float>(1.5 * random.normal()));
    std::vector<double> p(width), stated(width);
    distribution(z, Scores::kLogits, 1, absl::MakeSpan(p));
    distribution(z, Scores::kLogits, 1 / times, absl::MakeSpan(stated));
    double left = random.uniform();
    uint32_t drawn = 0;
    while (drawn + 1 < width && (left -= p[drawn]) >= 0) ++drawn;
    result.classes.push_back(drawn);
    for (uint32_t c = 0; c < width; ++c) {
      result.logits.values.push_back(static_cast<float>(times * double{z[c]}));
      result.probabilities.values.push_back(static_cast<float>(stated[c]));
    }
  }
  return result;
}

TEST(Temperature, IsRecovered) {
  for (const double times : {0.4, 1.0, 3.0}) {
    const Sample made = sample(times, 5, 20'000, Random(3));
    EXPECT_EQ(scores_of(made.logits), Scores::kLogits);
    EXPECT_EQ(scores_of(made.probabilities), Scores::kProbabilities);
    const double t = fit_temperature(made.logits, Scores::kLogits, made.targets());
    EXPECT_NEAR(t / times, 1, 0.03);
    EXPECT_NEAR(fit_temperature(made.probabilities, Scores::kProbabilities, made.targets()), t,
                0.01)
        << "logarithms of probabilities are logits, but for a constant";
  }
}

TEST(Temperature, IsTheBestOfAGrid) {
  const Sample made = sample(2, 3, 300, Random(9));
  const auto loss = [&](double t) {
    double sum = 0;
    std::vector<double> p(3);
    for (size_t i = 0; i < made.classes.size(); ++i) {
      distribution(made.logits.row(i), Scores::kLogits, t, absl::MakeSpan(p));
      sum -= std::log(p[made.classes[i]]);
    }
    return sum;
  };
  const double best = loss(fit_temperature(made.logits, Scores::kLogits, made.targets()));
  for (double t = 0.1; t < 10; t *= 1.02) ASSERT_LE(best, loss(t) + 1e-9) << t;
}

TEST(Temperature, MakesAModelAsSureAsAnother) {
  const Sample made = sample(1, 4, 50, Random(4));
  std::vector<double> targets(made.logits.values.size());
  for (size_t i = 0; i < 50; ++i) {
    distribution(made.logits.row(i), Scores::kLogits, 2.5,
                 absl::MakeSpan(targets).subspan(4 * i, 4));
  }
  EXPECT_NEAR(fit_temperature(made.logits, Scores::kLogits, targets), 2.5, 1e-6);
}

TEST(Temperature, StaysInItsBounds) {
  const OutputTable sure{.width = 2, .values = {1, 0, 0, 1}};
  EXPECT_NEAR(fit_temperature(sure, Scores::kLogits, {1, 0, 0, 1}), kLeastTemperature, 1e-9);
  EXPECT_NEAR(fit_temperature(sure, Scores::kLogits, {0, 1, 1, 0}), kMostTemperature, 1e-9);
}

TEST(Temperature, ZeroIsAProbabilityToo) {
  const OutputTable table{.width = 3, .values = {1, 0, 0}};
  std::vector<double> p(3);
  distribution(table.row(0), Scores::kProbabilities, 1, absl::MakeSpan(p));
  EXPECT_NEAR(p[0], 1, 1e-7);
  EXPECT_NEAR(p[1], 1e-8, 1e-12);
  distribution(table.row(0), Scores::kProbabilities, 2, absl::MakeSpan(p));
  EXPECT_NEAR(p[1] / p[0], 1e-4, 1e-9) << "the root, softened";
}

}  // namespace
}  // namespace fermata::estimate
