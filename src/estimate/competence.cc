#include "estimate/competence.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace fermata::estimate {
namespace {

float squared_distance(absl::Span<const float> a, absl::Span<const float> b) {
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

Competence::Competence(const LabelledPoints& history, std::vector<Subset> right, uint32_t models,
                       uint32_t k)
    : right_(std::move(right)), models_(models), k_(k) {
  FERMATA_CHECK(history.size() > 0 && right_.size() == history.size() && k > 0);
  FERMATA_CHECK(models >= 1 && models <= kMostBaseModels);
  std::vector<std::vector<uint32_t>> rows(history.classes);
  for (uint32_t row = 0; row < history.size(); ++row) rows[history.labels[row]].push_back(row);
  for (std::vector<uint32_t>& of_class : rows) {
    if (of_class.empty()) continue;
    Neighbors neighbors(subset(history, of_class));
    by_class_.push_back({std::move(of_class), std::move(neighbors)});
  }
}

std::vector<Competence::Near> Competence::region(absl::Span<const float> features) const {
  std::vector<Near> near, others;
  const size_t each = k_ / by_class_.size();
  for (const OfClass& of_class : by_class_) {
    size_t taken = 0;
    for (const uint32_t at : of_class.neighbors.nearest(features, k_)) {
      const LabelledPoints& points = of_class.neighbors.points();
      const Near found{squared_distance(features, points.row(at)), of_class.rows[at],
                       points.labels[at]};
      (taken++ < each ? near : others).push_back(found);
    }
  }
  const auto nearer = [](const Near& a, const Near& b) {
    return std::tie(a.squared, a.row) < std::tie(b.squared, b.row);
  };
  std::sort(others.begin(), others.end(), nearer);
  const size_t more = std::min(k_ - near.size(), others.size());
  near.insert(near.end(), others.begin(), others.begin() + static_cast<ptrdiff_t>(more));
  std::sort(near.begin(), near.end(), nearer);
  return near;
}

Subset Competence::frienemies(absl::Span<const Near> region) const {
  Subset kept = 0;
  for (const Near& a : region) {
    for (const Near& b : region) {
      if (a.label != b.label) kept |= right_[a.row] & right_[b.row];
    }
  }
  return kept == 0 ? all_models(models_) : kept;
}

Subset Competence::select(absl::Span<const float> features) const {
  const std::vector<Near> near = region(features);
  Subset competent = frienemies(near);
  Subset best = 0;
  for (const Near& point : near) {
    competent &= right_[point.row];
    if (competent == 0) break;
    best = competent;
  }
  return best == 0 ? all_models(models_) : best;
}

}  // namespace fermata::estimate
