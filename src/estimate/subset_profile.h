#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/random.h"
#include "estimate/subset.h"

namespace fermata::estimate {

// Whether the answer of each subset of the base models is that of all of them, by query:
// accuracy with the ensemble as the truth (Schemble, section V-B).
class SubsetAnswers {
 public:
  static constexpr uint8_t kWrong = 0, kRight = 1, kNotTried = 255;

  // Nothing is tried but the whole ensemble, which is right; 1 to kMostBaseModels models.
  SubsetAnswers(uint32_t models, size_t queries);

  uint32_t models() const { return models_; }
  size_t subsets() const { return size_t{1} << models_; }
  size_t queries() const { return queries_; }
  bool tried(size_t query, Subset subset) const { return at(query, subset) != kNotTried; }
  bool right(size_t query, Subset subset) const { return at(query, subset) == kRight; }
  void set(size_t query, Subset subset, bool right) {
    values_[query * subsets() + subset] = right ? kRight : kWrong;
  }
  // By query, then by subset; the empty one is wrong.
  const std::vector<uint8_t>& values() const { return values_; }

 private:
  uint8_t at(size_t query, Subset subset) const { return values_[query * subsets() + subset]; }

  uint32_t models_;
  size_t queries_;
  std::vector<uint8_t> values_;
};

// Accuracy by difficulty bin × subset (Schemble, section V-D): the reward of a scheduler.
struct SubsetProfile {
  std::vector<double> edges;                   // ascending, between one bin and the next
  std::vector<uint64_t> counts;                // queries by bin, at least one each
  std::vector<std::vector<double>> utilities;  // by bin, then by subset, in [0, 1]; [0] is 0
  // Of equation 3: by bin, γ_k at [k] for k from 2 to models - 2 ([0] and [1] are 1); empty
  // where every subset was profiled.
  std::vector<std::vector<double>> gamma;

  size_t bins() const { return counts.size(); }
  // How many edges are at or below the score. O(log bins).
  size_t bin_of(double score) const;
  // Utilities by subset of a query with this score.
  absl::Span<const double> of(double score) const { return utilities[bin_of(score)]; }
  // Of a query whose score is not known: the mean over bins by their share. O(bins * 2^m).
  std::vector<double> expected() const;
};

// Edges between bins of equal count; an edge is a score that occurs, and equal scores are in one
// bin. Edges that would leave a bin with fewer than `at_least` scores are left out. Scores are
// finite and at least one; bins from 1. O(n log n).
std::vector<double> quantile_edges(absl::Span<const float> scores, uint32_t bins, size_t at_least);

// As many bins as have 50 queries each, at most 10.
uint32_t usual_bins(size_t queries);

// The profile of what was tried; the empty subset is worth nothing and the whole ensemble 1.
// Where some subset was not tried on every query, those that were are measured and the
// others follow from equation 3, with models in the order of their accuracy (the lower index
// first of equals): γ_k is what fits the subsets that were tried on some queries best, by least
// squares, at least 0. It is fitted in each bin, where the gain falls more slowly the harder
// the queries are; where pairs gain nothing in a bin, over all bins, and is 1 where nothing
// was tried. Estimates are clipped to [0, 1].
// Last, utilities are made monotone: a subset is worth at least what any part of it is
// (assumption 1, first half). Subsets of one and two models must have been tried on every
// query; scores are as many as queries. O(queries * 2^m).
SubsetProfile profile_subsets(const SubsetAnswers& answers, absl::Span<const float> scores,
                              std::vector<double> edges);

// Raises utilities by subset to the largest of any part of it. O(m * 2^m).
void make_monotone(absl::Span<double> utilities);

// Larger subsets to try on some queries, so that γ can be fitted where there are too many to
// try all on all: of every size from 3 to models - 1 some drawn at random, and what they are
// without their least accurate models down to three. `accuracies` by model. Ascending.
std::vector<Subset> subsets_to_sample(absl::Span<const double> accuracies, Random random);

}  // namespace fermata::estimate
