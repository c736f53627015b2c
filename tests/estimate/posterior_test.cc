#include "estimate/posterior.h"

#include <gtest/gtest.h>

#include <array>

namespace fermata::estimate {
namespace {

TEST(Posterior, WeighsTheRecallsByPriorAndEvidence) {
  const std::array prior{0.5, 0.5}, evidence{2.0, 3.0}, recall{0.95, 0.70};
  std::array<double, 2> theta{};
  posterior_mean(prior, evidence, theta);
  EXPECT_DOUBLE_EQ(theta[0], 2.5 / 6);  // (0.5 + 2) / (0.5 + 2 + 0.5 + 3)
  EXPECT_DOUBLE_EQ(theta[1], 3.5 / 6);
  // 0.95 * 2.5/6 + 0.70 * 3.5/6 = 2.375/6 + 2.45/6 = 4.825/6
  EXPECT_DOUBLE_EQ(expected_accuracy(theta, recall), 4.825 / 6);
}

TEST(Posterior, WithoutEvidenceIsThePrior) {
  const std::array prior{1.0, 3.0}, evidence{0.0, 0.0};
  std::array<double, 2> theta{};
  posterior_mean(prior, evidence, theta);
  EXPECT_EQ(theta, (std::array{0.25, 0.75}));
}

TEST(Posterior, AClassIsLikelyAboveOneHalfOnly) {
  EXPECT_EQ(likely_class(std::array{0.3, 0.7}), 1u);
  EXPECT_EQ(likely_class(std::array{0.51, 0.49}), 0u);
  EXPECT_EQ(likely_class(std::array{0.5, 0.5}), std::nullopt);
  EXPECT_EQ(likely_class(std::array{0.4, 0.3, 0.3}), std::nullopt);
}

}  // namespace
}  // namespace fermata::estimate
