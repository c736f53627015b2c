#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "estimate/subset.h"

namespace fermata::estimate {

// What an ensemble predicts, and how it makes one output of its base models' (Schemble,
// sections III and VII).
enum class Prediction : uint8_t { kClassification, kRegression };
enum class Aggregation : uint8_t { kVote, kWeightedVote, kAverage, kWeightedAverage, kStacking };

// As documents have them: classification, regression; vote, weighted-vote, average,
// weighted-average, stacking. In the order of the enumerations.
inline constexpr std::string_view kPredictionNames[] = {"classification", "regression"};
inline constexpr std::string_view kAggregationNames[] = {"vote", "weighted-vote", "average",
                                                         "weighted-average", "stacking"};
inline std::string_view name(Prediction kind) {
  return kPredictionNames[static_cast<size_t>(kind)];
}
inline std::string_view name(Aggregation kind) {
  return kAggregationNames[static_cast<size_t>(kind)];
}
std::optional<Prediction> parse_prediction(std::string_view name);
std::optional<Aggregation> parse_aggregation(std::string_view name);
inline bool takes_weights(Aggregation kind) {
  return kind == Aggregation::kWeightedVote || kind == Aggregation::kWeightedAverage;
}

// What the base models gave for one query; a missing output is empty.
using QueryOutputs = absl::Span<const absl::Span<const float>>;

// The outputs of a subset, the others left out.
std::vector<absl::Span<const float>> restricted(QueryOutputs outputs, Subset subset);

struct Aggregator {
  Prediction prediction = Prediction::kClassification;
  Aggregation aggregation = Aggregation::kAverage;
  std::vector<double> weights;  // by model, above 0, of a weighted kind; else empty

  // INVALID_ARGUMENT where the weights do not suit `models`, or numbers are to be voted on.
  absl::Status check(uint32_t models) const;
};

// The ensemble's output from what is there (section VII):
// - votes: each model for its class_of(); the output is the share of votes (or of weight) by
//   class, and class_of() it the decision: ties go to the lower class. A missing output
//   does not vote.
// - averages: those of the outputs as they stand, weights rescaled to what is there.
// Not for stacking, see meta_input(). INVALID_ARGUMENT where no output is there, they
// differ in length or one has a number that is not finite. O(models * width).
absl::StatusOr<std::vector<float>> aggregate(const Aggregator& aggregator, QueryOutputs outputs);

// What the meta-classifier of stacking gets: all outputs, one after the other. None is missing
// (Filling fills them).
std::vector<float> meta_input(QueryOutputs outputs);

}  // namespace fermata::estimate
