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

// The T between the two above that makes the targets likeliest (the least mean of
// −ln softmax(z / T)[target]). That mean is convex in 1/T, so its slope is bisected: the same
// table gives the same T. One target a row, below the table's width; at least one row.
// O(40 * values).
double fit_temperature(const OutputTable& table, Scores scores, absl::Span<const uint32_t> targets);

}  // namespace fermata::estimate
