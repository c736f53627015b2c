#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "estimate/aggregation.h"
#include "estimate/discrepancy.h"
#include "estimate/output_table.h"
#include "estimate/subset_profile.h"

namespace fermata::estimate {

// A way to say how difficult queries are, and what subsets are worth by it.
struct DifficultyMeasure {
  std::vector<double> norms;  // Difficulty::norms
  SubsetProfile profile;
};

// What a history says of an ensemble: all that a scheduler of its queries needs, and with
// what it was found. The document is profile.json (difficulty_document.h).
struct DifficultyProfile {
  static constexpr int kFormat = 1;

  std::string name;                 // of the ensemble
  std::vector<std::string> models;  // by bit of a Subset
  Aggregator aggregator;
  uint32_t width = 0;    // numbers of the ensemble's output
  uint64_t queries = 0;  // of the history
  // Of classification: by model, and of the ensemble's own output.
  std::vector<double> temperatures;
  double ensemble_temperature = 1;
  uint32_t neighbors = 0;  // of stacking: those that missing outputs were filled from
  // Of regression: how far from the ensemble's output, at most, an output is right.
  double tolerance = 0;
  DifficultyMeasure discrepancy, agreement;
};

// The recorded outputs of an ensemble on n queries.
struct EnsembleHistory {
  std::vector<OutputTable> by_model;
  OutputTable ensemble;
  std::vector<uint32_t> labels;  // true classes; empty: none are known
};

struct DifficultyOptions {
  uint32_t bins = 0;  // of each measure; 0: usual_bins()
  // Of so many models at most, every subset is tried on every query; of more, those of one and
  // two, and larger ones on up to 2048 queries, evenly spaced, for γ.
  uint32_t exact_up_to = 4;
  // Of regression, what is right: an output so near to the ensemble's; else, so many standard
  // deviations of the ensemble's outputs.
  std::optional<double> within;
  double tolerance = 0.1;
  uint64_t seed = 1;  // of what larger subsets are tried
};

struct DifficultyFit {
  DifficultyProfile profile;
  std::vector<float> discrepancy, agreement;  // scores by query
  SubsetAnswers answers;
};

// The ensemble's outputs of some rows of a history where only a subset of the base models
// was run.
using SubsetOutputs =
    absl::FunctionRef<absl::StatusOr<OutputTable>(Subset subset, absl::Span<const uint32_t> rows)>;

// The outputs of votes and averages. Stacking needs Filling and a run of its model instead.
absl::StatusOr<OutputTable> aggregate_rows(const Aggregator& aggregator,
                                           absl::Span<const OutputTable> by_model, Subset subset,
                                           absl::Span<const uint32_t> rows);

// Fits temperatures (all to the labels; without any, the models' to the ensemble's distributions,
// which keep temperature 1), scores every query by both measures and profiles accuracy
// by bin × subset. A subset is right where its output has the ensemble's class, or is
// within the tolerance of its numbers. `name`, `models` and `aggregator` are copied into the
// profile. INVALID_ARGUMENT where tables do not fit each other, classes have fewer than two
// scores, labels are of no class, or the aggregator does not suit. `progress` gets the share
// that is done. O(queries * 2^m * m * width).
absl::StatusOr<DifficultyFit> fit_difficulty(
    std::string name, std::vector<std::string> models, Aggregator aggregator,
    const EnsembleHistory& history, SubsetOutputs outputs_of, const DifficultyOptions& options,
    absl::FunctionRef<void(double)> progress = [](double) {});

}  // namespace fermata::estimate
