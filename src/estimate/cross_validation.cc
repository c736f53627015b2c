#include "estimate/cross_validation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/status.h"

namespace fermata::estimate {
namespace {

constexpr double kUninformative = 0.5;  // weight of each class in the prior

void shuffle(std::vector<uint32_t>& rows, Random& random) {
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
}

// The classes of the k_max nearest points of other folds, nearest first, point by point.
std::vector<uint32_t> held_out_neighbors(const LabelledPoints& points,
                                         absl::Span<const uint32_t> fold_of,
                                         const CrossValidationOptions& options,
                                         absl::FunctionRef<void(double)> progress) {
  std::vector<uint32_t> classes(points.size() * options.k_max);
  for (uint32_t fold = 0; fold < options.folds; ++fold) {
    std::vector<uint32_t> rest, held_out;
    for (uint32_t row = 0; row < points.size(); ++row) {
      (fold_of[row] == fold ? held_out : rest).push_back(row);
    }
    const auto done = [&](double share) { progress((fold + share) / options.folds); };
    const Neighbors neighbors(subset(points, rest), options.exact_up_to,
                              [&](double share) { done(share / 2); });
    for (size_t i = 0; i < held_out.size(); ++i) {
      uint32_t* out = &classes[size_t{held_out[i]} * options.k_max];
      for (const uint32_t row : neighbors.nearest(points.row(held_out[i]), options.k_max)) {
        *out++ = neighbors.points().labels[row];
      }
      done(0.5 + 0.5 * static_cast<double>(i + 1) / static_cast<double>(held_out.size()));
    }
  }
  return classes;
}

// Adds what a point of class `truth` says about k = 1, 2, ...
void score_point(absl::Span<const uint32_t> classes_by_nearness, uint32_t truth,
                 std::vector<uint32_t>& counts, std::vector<NeighborScore>& by_k) {
  const double prior = kUninformative * static_cast<double>(counts.size());
  for (size_t i = 0; i < by_k.size(); ++i) {
    ++counts[classes_by_nearness[i]];
    const uint32_t answer = majority(classes_by_nearness.first(i + 1), counts);
    by_k[i].accuracy += answer == truth ? 1 : 0;
    by_k[i].log_loss -=
        portable_log((kUninformative + counts[truth]) / (prior + static_cast<double>(i + 1)));
  }
  for (const uint32_t label : classes_by_nearness) counts[label] = 0;
}

bool better(const NeighborScore& a, const NeighborScore& b, Criterion criterion) {
  return criterion == Criterion::kAccuracy ? a.accuracy > b.accuracy : a.log_loss < b.log_loss;
}

absl::Status check(const LabelledPoints& points, const CrossValidationOptions& options) {
  const size_t n = points.size();
  if (options.folds < 2 || options.folds > n) {
    return invalid("folds is {}, expected 2 to {}, the number of points", options.folds, n);
  }
  if (const uint32_t most = largest_k(n, options.folds);
      options.k_max < 1 || options.k_max > most) {
    return invalid("the largest k is {}, expected 1 to {}: {} folds of {} points leave no more",
                   options.k_max, most, options.folds, n);
  }
  return absl::OkStatus();
}

}  // namespace

uint32_t largest_k(size_t points, uint32_t folds) {
  return static_cast<uint32_t>(points - (points + folds - 1) / folds);
}

std::vector<uint32_t> stratified_folds(absl::Span<const uint32_t> labels, uint32_t classes,
                                       uint32_t folds, Random random) {
  std::vector<std::vector<uint32_t>> by_class(classes);
  for (uint32_t row = 0; row < labels.size(); ++row) by_class[labels[row]].push_back(row);
  std::vector<uint32_t> fold_of(labels.size());
  uint32_t next = 0;  // goes on from class to class, so that the folds are of one size
  for (std::vector<uint32_t>& rows : by_class) {
    shuffle(rows, random);
    for (const uint32_t row : rows) {
      fold_of[row] = next;
      next = (next + 1) % folds;
    }
  }
  return fold_of;
}

absl::StatusOr<CrossValidation> cross_validate(const LabelledPoints& points,
                                               const CrossValidationOptions& options, Random random,
                                               absl::FunctionRef<void(double)> progress) {
  RETURN_IF_ERROR(check(points, options));
  const std::vector<uint32_t> fold_of =
      stratified_folds(points.labels, points.classes, options.folds, random);
  const std::vector<uint32_t> found = held_out_neighbors(points, fold_of, options, progress);
  const auto neighbors_of = [&](size_t row) {
    return absl::MakeConstSpan(found).subspan(row * options.k_max, options.k_max);
  };
  CrossValidation result{.confusion = Confusion(points.classes)};
  for (uint32_t k = 1; k <= options.k_max; ++k) result.by_k.push_back({.k = k});
  std::vector<uint32_t> counts(points.classes);
  for (size_t row = 0; row < points.size(); ++row) {
    score_point(neighbors_of(row), points.labels[row], counts, result.by_k);
  }
  for (NeighborScore& score : result.by_k) {
    score.accuracy /= static_cast<double>(points.size());
    score.log_loss /= static_cast<double>(points.size());
  }
  result.k = std::min_element(result.by_k.begin(), result.by_k.end(),
                              [&options](const NeighborScore& a, const NeighborScore& b) {
                                return better(a, b, options.criterion);
                              })
                 ->k;
  for (size_t row = 0; row < points.size(); ++row) {
    result.confusion.add(points.labels[row],
                         count(neighbors_of(row).first(result.k), points.classes).answer);
  }
  return result;
}

Confusion leave_one_out(const Neighbors& neighbors, uint32_t k, size_t at_most,
                        absl::FunctionRef<uint32_t(const Evidence&)> answer) {
  const LabelledPoints& points = neighbors.points();
  Confusion confusion(points.classes);
  const size_t asked = std::min(points.size(), at_most);
  for (size_t i = 0; i < asked; ++i) {
    const auto self = static_cast<uint32_t>(i * points.size() / asked);
    std::vector<uint32_t> found = neighbors.nearest(points.row(self), k + 1);
    // Among many copies of itself it may not be one of the nearest.
    const auto drop = std::find(found.begin(), found.end(), self);
    found.erase(drop == found.end() ? found.end() - 1 : drop);
    for (uint32_t& row : found) row = points.labels[row];
    if (!found.empty()) confusion.add(points.labels[self], answer(count(found, points.classes)));
  }
  return confusion;
}

}  // namespace fermata::estimate
