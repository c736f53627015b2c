#include "estimate/aggregation.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "base/status.h"
#include "estimate/output_table.h"

namespace fermata::estimate {
namespace {

template <class Kind, size_t n>
std::optional<Kind> parse(const std::string_view (&names)[n], std::string_view text) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Kind>(found - std::begin(names));
}

bool votes(Aggregation kind) {
  return kind == Aggregation::kVote || kind == Aggregation::kWeightedVote;
}

absl::Status check_outputs(QueryOutputs outputs, size_t width) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].empty()) continue;
    if (outputs[k].size() != width) {
      return invalid("base model {} gave {} numbers, another {}", k, outputs[k].size(), width);
    }
    if (!std::all_of(outputs[k].begin(), outputs[k].end(),
                     [](float value) { return std::isfinite(value); })) {
      return invalid("base model {} gave a number that is not finite", k);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<Prediction> parse_prediction(std::string_view name) {
  return parse<Prediction>(kPredictionNames, name);
}

std::optional<Aggregation> parse_aggregation(std::string_view name) {
  return parse<Aggregation>(kAggregationNames, name);
}

std::vector<absl::Span<const float>> restricted(QueryOutputs outputs, Subset subset) {
  std::vector<absl::Span<const float>> some(outputs.size());
  for (uint32_t k = 0; k < outputs.size(); ++k) {
    if (contains(subset, k)) some[k] = outputs[k];
  }
  return some;
}

absl::Status Aggregator::check(uint32_t models) const {
  if (votes(aggregation) && prediction == Prediction::kRegression) {
    return invalid("aggregation is {}, but numbers cannot be voted on: expected an average or {}",
                   name(aggregation), name(Aggregation::kStacking));
  }
  if (!takes_weights(aggregation)) {
    return weights.empty() ? absl::OkStatus()
                           : invalid("weights are given, but aggregation is {}", name(aggregation));
  }
  if (weights.size() != models) {
    return invalid("there are {} weights, expected {}, one for each base model", weights.size(),
                   models);
  }
  for (const double weight : weights) {
    if (!(weight > 0) || !std::isfinite(weight)) {
      return invalid("a weight is {}, expected finite ones above 0", weight);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> aggregate(const Aggregator& aggregator, QueryOutputs outputs) {
  FERMATA_CHECK(aggregator.aggregation != Aggregation::kStacking);
  const auto first = std::find_if(outputs.begin(), outputs.end(),
                                  [](absl::Span<const float> output) { return !output.empty(); });
  if (first == outputs.end()) return invalid("no base model gave an output, expected at least one");
  RETURN_IF_ERROR(check_outputs(outputs, first->size()));
  std::vector<double> sum(first->size());
  double total = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].empty()) continue;
    const double weight = aggregator.weights.empty() ? 1 : aggregator.weights[k];
    total += weight;
    if (votes(aggregator.aggregation)) {
      sum[class_of(outputs[k])] += weight;
    } else {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * double{outputs[k][i]};
    }
  }
  std::vector<float> output(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) output[i] = static_cast<float>(sum[i] / total);
  return output;
}

std::vector<float> meta_input(QueryOutputs outputs) {
  std::vector<float> input;
  for (const absl::Span<const float> output : outputs) {
    FERMATA_CHECK(!output.empty());
    input.insert(input.end(), output.begin(), output.end());
  }
  return input;
}

}  // namespace fermata::estimate
