#include "estimate/posterior.h"

namespace fermata::estimate {

void posterior_mean(std::span<const double> prior, std::span<const double> evidence,
                    std::span<double> mean) {
  double total = 0;
  for (size_t i = 0; i < prior.size(); ++i) total += mean[i] = prior[i] + evidence[i];
  for (double& theta : mean) theta /= total;
}

double expected_accuracy(std::span<const double> theta, std::span<const double> recall) {
  double accuracy = 0;
  for (size_t i = 0; i < theta.size(); ++i) accuracy += theta[i] * recall[i];
  return accuracy;
}

size_t likeliest_class(std::span<const double> prior, std::span<const uint32_t> evidence) {
  size_t best = 0;
  for (size_t i = 1; i < prior.size(); ++i) {
    if (prior[i] + evidence[i] > prior[best] + evidence[best]) best = i;
  }
  return best;
}

std::optional<size_t> likely_class(std::span<const double> theta) {
  for (size_t i = 0; i < theta.size(); ++i) {
    if (theta[i] > 0.5) return i;
  }
  return {};
}

}  // namespace fermata::estimate
