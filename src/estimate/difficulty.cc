#include "estimate/difficulty.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "estimate/temperature.h"

namespace fermata::estimate {
namespace {

constexpr size_t kMostSampled = 2048;  // queries that larger subsets are tried on

std::vector<uint32_t> first_rows(size_t n) {
  std::vector<uint32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<uint32_t> spaced_rows(size_t n, size_t at_most) {
  std::vector<uint32_t> rows = first_rows(std::min(n, at_most));
  for (uint32_t& row : rows) row = static_cast<uint32_t>(size_t{row} * n / rows.size());
  return rows;
}

absl::Status check_labels(const EnsembleHistory& history) {
  if (history.labels.empty()) return absl::OkStatus();
  if (history.labels.size() != history.ensemble.size()) {
    return invalid("there are {} labels for {} queries", history.labels.size(),
                   history.ensemble.size());
  }
  const uint32_t highest = *std::max_element(history.labels.begin(), history.labels.end());
  if (highest < history.ensemble.width) return absl::OkStatus();
  const auto at = std::find(history.labels.begin(), history.labels.end(), highest);
  return invalid("query {} has label {}, but the classes are 0 to {}", at - history.labels.begin(),
                 highest, history.ensemble.width - 1);
}

absl::Status check(const Aggregator& aggregator, size_t models, const EnsembleHistory& history) {
  if (models < 1 || models > kMostBaseModels || history.by_model.size() != models) {
    return invalid("there are {} base models with {} tables, expected 1 to {} with one each",
                   models, history.by_model.size(), kMostBaseModels);
  }
  RETURN_IF_ERROR(aggregator.check(static_cast<uint32_t>(models)));
  std::vector<OutputTable> all = history.by_model;
  all.push_back(history.ensemble);
  RETURN_IF_ERROR(check_tables(all));
  for (size_t k = 0; k < models; ++k) {
    if (all[k].width == history.ensemble.width) continue;
    return invalid("base model {} gives {} numbers, the ensemble {}", k, all[k].width,
                   history.ensemble.width);
  }
  if (aggregator.prediction == Prediction::kRegression) {
    return history.labels.empty() ? absl::OkStatus()
                                  : invalid("labels are given, but regression has no classes");
  }
  if (history.ensemble.width < 2) {
    return invalid(
        "outputs have one number, expected a score for each of two or more classes: "
        "name the output that has them");
  }
  return check_labels(history);
}

// What the models are to be as sure as: the labels or, without any, the ensemble.
std::vector<double> targets_of(const EnsembleHistory& history) {
  const OutputTable& ensemble = history.ensemble;
  if (!history.labels.empty()) return one_hot(history.labels, ensemble.width);
  const Scores scores = scores_of(ensemble);
  std::vector<double> targets(ensemble.values.size());
  for (size_t i = 0; i < ensemble.size(); ++i) {
    distribution(ensemble.row(i), scores, 1,
                 absl::MakeSpan(targets).subspan(i * ensemble.width, ensemble.width));
  }
  return targets;
}

void fit_temperatures(const EnsembleHistory& history, DifficultyProfile& profile) {
  const std::vector<double> targets = targets_of(history);
  const auto fit = [&](const OutputTable& table) {
    return fit_temperature(table, scores_of(table), targets);
  };
  for (const OutputTable& table : history.by_model) profile.temperatures.push_back(fit(table));
  if (!history.labels.empty()) profile.ensemble_temperature = fit(history.ensemble);
}

// The root of the mean squared distance of the outputs from their mean.
double standard_deviation(const OutputTable& table) {
  double sum = 0;
  const auto n = static_cast<double>(table.size());
  for (size_t column = 0; column < table.width; ++column) {
    double mean = 0;
    for (size_t i = 0; i < table.size(); ++i) mean += double{table.row(i)[column]} / n;
    for (size_t i = 0; i < table.size(); ++i) {
      const double difference = double{table.row(i)[column]} - mean;
      sum += difference * difference / n;
    }
  }
  return std::sqrt(sum);
}

// Tries subsets on rows of a history, and counts how much of the work is done.
class Trial {
 public:
  Trial(const EnsembleHistory& history, const DifficultyProfile& profile, SubsetOutputs outputs_of,
        absl::FunctionRef<void(double)> progress)
      : history_(history),
        profile_(profile),
        outputs_of_(outputs_of),
        progress_(progress),
        answers_(static_cast<uint32_t>(history.by_model.size()), history.ensemble.size()) {}

  absl::Status try_all(absl::Span<const Subset> subsets, absl::Span<const uint32_t> rows,
                       double done, double share) {
    for (size_t i = 0; i < subsets.size(); ++i) {
      ASSIGN_OR_RETURN(const OutputTable outputs, outputs_of_(subsets[i], rows));
      if (outputs.size() != rows.size() || outputs.width != history_.ensemble.width) {
        return invalid("{} outputs of {} numbers came of {} queries, expected {} numbers each",
                       outputs.size(), outputs.width, rows.size(), history_.ensemble.width);
      }
      for (size_t at = 0; at < rows.size(); ++at) {
        answers_.set(rows[at], subsets[i], right(outputs.row(at), rows[at]));
      }
      progress_(done + share * static_cast<double>(i + 1) / static_cast<double>(subsets.size()));
    }
    return absl::OkStatus();
  }

  const SubsetAnswers& answers() const { return answers_; }

 private:
  bool right(absl::Span<const float> output, uint32_t row) const {
    const absl::Span<const float> truth = history_.ensemble.row(row);
    return profile_.aggregator.prediction == Prediction::kClassification
               ? class_of(output) == class_of(truth)
               : euclidean(output, truth) <= profile_.tolerance;
  }

  const EnsembleHistory& history_;
  const DifficultyProfile& profile_;
  SubsetOutputs outputs_of_;
  absl::FunctionRef<void(double)> progress_;
  SubsetAnswers answers_;
};

std::vector<double> model_accuracies(const SubsetAnswers& answers) {
  std::vector<double> accuracies(answers.models());
  for (uint32_t k = 0; k < answers.models(); ++k) {
    for (size_t i = 0; i < answers.queries(); ++i) {
      accuracies[k] += answers.right(i, only(k)) ? 1 : 0;
    }
  }
  return accuracies;
}

absl::Status try_subsets(Trial& trial, const DifficultyOptions& options) {
  const uint32_t models = trial.answers().models();
  const size_t queries = trial.answers().queries();
  const bool exact = models <= options.exact_up_to;
  std::vector<Subset> everywhere;
  for (Subset subset = 1; subset < all_models(models); ++subset) {
    if (exact || size_of(subset) <= 2) everywhere.push_back(subset);
  }
  const double share = exact ? 1 : 0.8;
  RETURN_IF_ERROR(trial.try_all(everywhere, first_rows(queries), 0, share));
  if (exact) return absl::OkStatus();
  const std::vector<Subset> larger =
      subsets_to_sample(model_accuracies(trial.answers()), Random(options.seed));
  return trial.try_all(larger, spaced_rows(queries, kMostSampled), share, 1 - share);
}

DifficultyMeasure measure(Difficulty difficulty, const SubsetAnswers& answers,
                          const DifficultyOptions& options) {
  const uint32_t bins = options.bins > 0 ? options.bins : usual_bins(answers.queries());
  // Half as many as usual where scores are equal: a bin of few says little.
  const size_t at_least = std::max<size_t>(1, answers.queries() / bins / 2);
  return {std::move(difficulty.norms),
          profile_subsets(answers, difficulty.scores,
                          quantile_edges(difficulty.scores, bins, at_least))};
}

}  // namespace

absl::StatusOr<OutputTable> aggregate_rows(const Aggregator& aggregator,
                                           absl::Span<const OutputTable> by_model, Subset subset,
                                           absl::Span<const uint32_t> rows) {
  OutputTable result;
  std::vector<absl::Span<const float>> outputs(by_model.size());
  for (const uint32_t row : rows) {
    for (uint32_t k = 0; k < by_model.size(); ++k) {
      if (contains(subset, k)) outputs[k] = by_model[k].row(row);
    }
    ASSIGN_OR_RETURN(const std::vector<float> output, aggregate(aggregator, outputs));
    result.width = static_cast<uint32_t>(output.size());
    result.values.insert(result.values.end(), output.begin(), output.end());
  }
  return result;
}

absl::StatusOr<DifficultyFit> fit_difficulty(std::string name, std::vector<std::string> models,
                                             Aggregator aggregator, const EnsembleHistory& history,
                                             SubsetOutputs outputs_of,
                                             const DifficultyOptions& options,
                                             absl::FunctionRef<void(double)> progress) {
  RETURN_IF_ERROR(check(aggregator, models.size(), history));
  DifficultyProfile profile{.name = std::move(name),
                            .models = std::move(models),
                            .aggregator = std::move(aggregator),
                            .width = history.ensemble.width,
                            .queries = history.ensemble.size()};
  const Prediction prediction = profile.aggregator.prediction;
  if (prediction == Prediction::kClassification) {
    fit_temperatures(history, profile);
  } else {
    profile.tolerance =
        options.within.value_or(options.tolerance * standard_deviation(history.ensemble));
  }
  Trial trial(history, profile, outputs_of, progress);
  RETURN_IF_ERROR(try_subsets(trial, options));
  std::vector<double> temperatures = profile.temperatures;
  temperatures.push_back(profile.ensemble_temperature);
  const Distances distances =
      measure_distances(prediction, history.by_model, history.ensemble, temperatures);
  Difficulty by_discrepancy = discrepancy(distances), by_agreement = agreement(distances);
  DifficultyFit fit{.discrepancy = by_discrepancy.scores,
                    .agreement = by_agreement.scores,
                    .answers = trial.answers()};
  profile.discrepancy = measure(std::move(by_discrepancy), fit.answers, options);
  profile.agreement = measure(std::move(by_agreement), fit.answers, options);
  fit.profile = std::move(profile);
  return fit;
}

}  // namespace fermata::estimate
