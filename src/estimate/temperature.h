#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "estimate/output_table.h"

namespace fermata::estimate {

// Temperature scaling (Guo et al. 2017, "On calibration of modern neural networks", section
// 4.2): softmax(z / T), one T for each model.

// What the scores of a classifier are: probabilities, whose logarithms serve as z, or z itself.
enum class Scores : uint8_t { kProbabilities, kLogits };

// Probabilities where every row has no negative number and sums to 1 within 0.001.
Scores scores_of(const OutputTable& table);

// softmax(z / T) into `out`, of the output's length. Probabilities below 1e-8 count as that:
// single precision rounds them to 0, whose logarithm no temperature moves.
// `temperature` above 0.
void distribution(absl::Span<const float> output, Scores scores, double temperature,
                  absl::Span<double> out);

inline constexpr double kLeastTemperature = 0.05, kMostTemperature = 20;

// The T between the two above that is nearest to the targets: the least mean cross-entropy
// −Σ q_c ln softmax(z / T)_c. That is convex in 1/T, so its slope is bisected: the same table gives
// the same T. `targets` is a distribution for each row: one_hot() of true classes, or what else
// the model is to be as sure as. At least one row. O(40 * values).
double fit_temperature(const OutputTable& table, Scores scores, absl::Span<const double> targets);

// Distributions that are sure of these classes, each below `width`.
std::vector<double> one_hot(absl::Span<const uint32_t> classes, uint32_t width);

}  // namespace fermata::estimate
