#include "estimate/temperature.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fermata::estimate {
namespace {

constexpr double kLeastProbability = 1e-8;
constexpr double kSumError = 1e-3;
constexpr int kSteps = 40;

void logits(absl::Span<const float> output, Scores scores, absl::Span<double> out) {
  for (size_t i = 0; i < output.size(); ++i) {
    out[i] = scores == Scores::kLogits ? double{output[i]}
                                       : std::log(std::max(double{output[i]}, kLeastProbability));
  }
}

// softmax(inverse * z), in place.
void softmax(double inverse, absl::Span<double> z) {
  const double most = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (double& value : z) sum += value = std::exp(inverse * (value - most));
  for (double& value : z) value /= sum;
}

}  // namespace

Scores scores_of(const OutputTable& table) {
  for (size_t i = 0; i < table.size(); ++i) {
    double sum = 0;
    for (const float value : table.row(i)) {
      if (value < 0) return Scores::kLogits;
      sum += double{value};
    }
    if (std::abs(sum - 1) > kSumError) return Scores::kLogits;
  }
  return Scores::kProbabilities;
}

void distribution(absl::Span<const float> output, Scores scores, double temperature,
                  absl::Span<double> out) {
  FERMATA_CHECK(temperature > 0 && out.size() == output.size());
  logits(output, scores, out);
  softmax(1 / temperature, out);
}

double fit_temperature(const OutputTable& table, Scores scores, absl::Span<const double> targets) {
  FERMATA_CHECK(table.size() > 0 && targets.size() == table.values.size());
  std::vector<double> z(table.values.size());
  for (size_t i = 0; i < table.size(); ++i) {
    logits(table.row(i), scores, absl::MakeSpan(z).subspan(i * table.width, table.width));
  }
  std::vector<double> p(table.width);
  // The derivative of the summed loss by 1/T: the expected score less the targets'.
  const auto slope = [&](double inverse) {
    double sum = 0;
    for (size_t i = 0; i < table.size(); ++i) {
      const auto row = absl::MakeConstSpan(z).subspan(i * table.width, table.width);
      std::copy(row.begin(), row.end(), p.begin());
      softmax(inverse, absl::MakeSpan(p));
      for (size_t c = 0; c < p.size(); ++c) sum += (p[c] - targets[i * p.size() + c]) * row[c];
    }
    return sum;
  };
  double low = std::log(1 / kMostTemperature), high = std::log(1 / kLeastTemperature);
  for (int step = 0; step < kSteps; ++step) {
    const double middle = (low + high) / 2;
    (slope(std::exp(middle)) < 0 ? low : high) = middle;
  }
  return std::clamp(std::exp(-(low + high) / 2), kLeastTemperature, kMostTemperature);
}

std::vector<double> one_hot(absl::Span<const uint32_t> classes, uint32_t width) {
  std::vector<double> targets(classes.size() * width);
  for (size_t i = 0; i < classes.size(); ++i) targets[i * width + classes[i]] = 1;
  return targets;
}

}  // namespace fermata::estimate
