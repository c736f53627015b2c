#include "estimate/discrepancy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "estimate/temperature.h"

namespace fermata::estimate {
namespace {

constexpr double kLn2 = 0.693147180559945309;
constexpr double kLeastShare = 1e-8;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The part of KL(p‖m) for m = (p + q) / 2, where p is not 0.
double half_divergence(double p, double q) { return p > 0 ? p * std::log(2 * p / (p + q)) : 0; }

float score(double normalised) { return static_cast<float>(normalised / (1 + normalised)); }

// The outputs of one query as distances see them, the ensemble's last.
class View {
 public:
  View(absl::Span<const OutputTable> by_model, const OutputTable& ensemble,
       absl::Span<const double> temperatures)
      : temperatures_(temperatures) {
    for (const OutputTable& table : by_model) tables_.push_back(&table);
    tables_.push_back(&ensemble);
    for (const OutputTable* table : tables_) {
      scores_.push_back(scores_of(*table));
      rows_.emplace_back(table->width);
    }
    FERMATA_CHECK(temperatures.size() == tables_.size());
  }

  void look_at(size_t query) {
    for (size_t k = 0; k < tables_.size(); ++k) {
      distribution(tables_[k]->row(query), scores_[k], temperatures_[k], absl::MakeSpan(rows_[k]));
    }
  }
  const std::vector<double>& operator[](size_t k) const { return rows_[k]; }

 private:
  absl::Span<const double> temperatures_;
  std::vector<const OutputTable*> tables_;
  std::vector<Scores> scores_;
  std::vector<std::vector<double>> rows_;
};

// `to_ensemble(k, query)` and `between(k, l, query)`; `look_at(query)` comes before them.
template <class LookAt, class ToEnsemble, class Between>
Distances measure(size_t models, size_t queries, const LookAt& look_at,
                  const ToEnsemble& to_ensemble, const Between& between) {
  Distances distances{.by_model = std::vector<std::vector<double>>(models)};
  const double pairs = static_cast<double>(models * (models - 1)) / 2;
  for (size_t query = 0; query < queries; ++query) {
    look_at(query);
    double sum = 0;
    for (size_t k = 0; k < models; ++k) {
      distances.by_model[k].push_back(to_ensemble(k, query));
      for (size_t l = k + 1; l < models; ++l) sum += between(k, l, query);
    }
    distances.between.push_back(models > 1 ? sum / pairs : 0);
  }
  return distances;
}

}  // namespace

double jensen_shannon(absl::Span<const double> p, absl::Span<const double> q) {
  FERMATA_CHECK(p.size() == q.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sum += half_divergence(p[i], q[i]) + half_divergence(q[i], p[i]);
  }
  return std::min(1.0, std::max(0.0, sum / (2 * kLn2)));
}

double symmetric_kullback_leibler(absl::Span<const double> p, absl::Span<const double> q) {
  FERMATA_CHECK(p.size() == q.size());
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double a = std::max(p[i], kLeastShare), b = std::max(q[i], kLeastShare);
    sum += (a - b) * (std::log(a) - std::log(b));
  }
  return sum;
}

Distances measure_distances(Prediction prediction, absl::Span<const OutputTable> by_model,
                            const OutputTable& ensemble, absl::Span<const double> temperatures) {
  const size_t models = by_model.size(), queries = ensemble.size();
  if (prediction == Prediction::kRegression) {
    return measure(
        models, queries, [](size_t) {},
        [&](size_t k, size_t i) { return euclidean(by_model[k].row(i), ensemble.row(i)); },
        [&](size_t k, size_t l, size_t i) {
          return euclidean(by_model[k].row(i), by_model[l].row(i));
        });
  }
  View view(by_model, ensemble, temperatures);
  return measure(
      models, queries, [&](size_t query) { view.look_at(query); },
      [&](size_t k, size_t) { return jensen_shannon(view[k], view[models]); },
      [&](size_t k, size_t l, size_t) { return symmetric_kullback_leibler(view[k], view[l]); });
}

Difficulty discrepancy(const Distances& distances) {
  Difficulty result;
  std::vector<double> sums(distances.between.size());
  for (const std::vector<double>& of_model : distances.by_model) {
    const double norm = result.norms.emplace_back(mean(of_model));
    if (norm == 0) continue;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_model[i] / norm;
  }
  const auto models = static_cast<double>(distances.by_model.size());
  for (const double sum : sums) result.scores.push_back(score(sum / models));
  return result;
}

Difficulty agreement(const Distances& distances) {
  Difficulty result{.norms = {mean(distances.between)}};
  const double norm = result.norms[0] == 0 ? 1 : result.norms[0];
  for (const double distance : distances.between) result.scores.push_back(score(distance / norm));
  return result;
}

}  // namespace fermata::estimate
