#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "estimate/labelled_points.h"
#include "estimate/neighbors.h"
#include "model/confusion.h"

namespace fermata::estimate {

// How well k neighbours know the class of a point that is not among them.
struct NeighborScore {
  uint32_t k = 1;
  double accuracy = 0;  // of the majority's answer
  // Mean of −ln of the probability that the posterior under the uninformative prior
  // (0.5 a class) gives the true class: few neighbours are weak evidence, which accuracy
  // does not see.
  double log_loss = 0;
};

enum class Criterion : uint8_t { kAccuracy, kLogLoss };

struct CrossValidationOptions {
  uint32_t folds = 5;   // from 2 to the number of points
  uint32_t k_max = 32;  // from 1 to largest_k()
  Criterion criterion = Criterion::kAccuracy;
  size_t exact_up_to = Neighbors::kExactUpTo;
};

struct CrossValidation {
  uint32_t k = 1;                   // the best by the criterion; the least of equals
  std::vector<NeighborScore> by_k;  // k = 1, 2, ..., k_max
  Confusion confusion;              // of that k
};

// The points that are left to learn from when the largest fold is held out: no k is larger.
uint32_t largest_k(size_t points, uint32_t folds);

// Which fold holds out each point. Stratified: of every class, and of all points, each
// fold has as many as another, up to one.
std::vector<uint32_t> stratified_folds(absl::Span<const uint32_t> labels, uint32_t classes,
                                       uint32_t folds, Random random);

// Chooses k by cross-validation ("standard supervised learning procedures", SneakPeek 4.2):
// the neighbours of each point are sought among the other folds', as Neighbors would serve
// them. INVALID_ARGUMENT where folds or k_max do not suit the points. O(n) lookups and one
// index a fold. `progress` gets the share that is done.
absl::StatusOr<CrossValidation> cross_validate(
    const LabelledPoints& points, const CrossValidationOptions& options, Random random,
    absl::FunctionRef<void(double)> progress = [](double) {});

// The confusion of k neighbours over up to `at_most` points, evenly spaced, each held out by
// itself: what an index that serves is worth, without building another. `answer` says which
// class that evidence stands for.
Confusion leave_one_out(
    const Neighbors& neighbors, uint32_t k, size_t at_most,
    absl::FunctionRef<uint32_t(const Evidence&)> answer = [](const Evidence& e) {
      return e.answer;
    });

}  // namespace fermata::estimate
