#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "estimate/labelled_points.h"
#include "estimate/neighbors.h"
#include "estimate/subset.h"

namespace fermata::estimate {

// Dynamic ensemble selection, the baseline that Schemble is compared with: FIRE-DES++ (Cruz and
// others, "Enhanced online pruning of base classifiers", Pattern Recognition 2019) with
// KNORA-Eliminate, without the filter of noisy points that precedes it. Which base models are
// competent where a query lies:
// 1. The region of competence: its k nearest points of the history, floor(k / classes) of
//    them the nearest of each class, the rest the nearest of any (KNNE).
// 2. Where the region has several classes, models that are not right on two points of
//    different class (frienemies) are pruned; if that prunes all, none is.
// 3. Of the rest, those that are right on the whole region; if there is none, on all of it
//    but the farthest, and so on; if none is right on the nearest point: all models.
// Lookups are safe from several threads.
class Competence {
 public:
  static constexpr uint32_t kUsualK = 7;  // as FIRE-DES++ was tried

  // A history with its classes; `right` by point: the models that answer it with its class. At
  // least one point; 1 to kMostBaseModels models; k from 1.
  Competence(const LabelledPoints& history, std::vector<Subset> right, uint32_t models,
             uint32_t k = kUsualK);

  size_t dimensions() const { return by_class_.front().neighbors.points().dimensions; }
  // Never empty. `features` has the history's dimensions, all finite. One lookup a class, see
  // Neighbors.
  Subset select(absl::Span<const float> features) const;

 private:
  struct OfClass {
    std::vector<uint32_t> rows;  // of the history
    Neighbors neighbors;
  };
  struct Near {
    float squared = 0;
    uint32_t row = 0, label = 0;
  };
  std::vector<Near> region(absl::Span<const float> features) const;
  Subset frienemies(absl::Span<const Near> region) const;

  std::vector<OfClass> by_class_;  // those that have a point
  std::vector<Subset> right_;
  uint32_t models_, k_;
};

}  // namespace fermata::estimate
