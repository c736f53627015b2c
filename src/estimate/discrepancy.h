#pragma once

#include <vector>

#include "absl/types/span.h"
#include "estimate/aggregation.h"
#include "estimate/output_table.h"

namespace fermata::estimate {

// How difficult queries are, by what the base models of an ensemble made of them (Schemble,
// section V-A).

// Of two distributions, between 0 (equal) and 1 (disjoint): base 2.
double jensen_shannon(absl::Span<const double> p, absl::Span<const double> q);

// KL(p‖q) + KL(q‖p), natural. Probabilities below 1e-8 count as that, so that it is finite.
double symmetric_kullback_leibler(absl::Span<const double> p, absl::Span<const double> q);

// What was recorded, as distances are measured on it: of classification, distributions after
// temperature scaling (distributions()); of regression, the numbers.
struct Distances {
  std::vector<std::vector<double>> by_model;  // each by query
  std::vector<double> between;                // by query: the mean over pairs of models
};

// d(f_k(x), E(x)) of equation 1 for every model and query, by Jensen-Shannon divergence or, for
// regression, Euclidean distance; and between the models, by symmetric Kullback-Leibler
// divergence (ensemble agreement, Carlini et al.) or Euclidean distance. `temperatures` by
// model, then the ensemble's own; unused in regression. Tables are checked and of one
// width. O(queries * models^2 * width).
Distances measure_distances(Prediction prediction, absl::Span<const OutputTable> by_model,
                            const OutputTable& ensemble, absl::Span<const double> temperatures);

// A difficulty for every query, in [0, 1], and what made it.
struct Difficulty {
  std::vector<double> norms;  // discrepancy: by model; agreement: one
  std::vector<float> scores;  // by query
};

// Equation 1. Norm divides a model's distance by its mean over the history, so that an
// inaccurate model, which is far from the ensemble most of the time, says no more than the
// others; a model that is always at distance 0 says nothing. The mean v over models is 1 for
// the query of mean difficulty; the score is v / (1 + v): the same order, and neither
// outliers nor the scale of the outputs stretch it.
Difficulty discrepancy(const Distances& distances);

// Ensemble agreement: the distance between the models by its mean, mapped the same way. High
// where they disagree.
Difficulty agreement(const Distances& distances);

}  // namespace fermata::estimate
