#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "estimate/labelled_points.h"

namespace fermata::estimate {

// What the data of a request says about its class: how many of the k nearest training
// points have each (SneakPeek, section 4.2). Added to a Dirichlet prior it gives the
// posterior of equation 11.
struct Evidence {
  std::vector<uint32_t> counts;  // by class, summing to k
  // The class of most neighbours; of several, that of the one who stands nearest. What
  // the evidence model would answer by itself (short circuit, section 5.3.1).
  uint32_t answer = 0;
};

// The k nearest of some labelled points, by Euclidean distance. Up to
// `exact_up_to` points by looking at each; beyond, approximately by a hierarchical
// navigable small-world graph (Malkov and Yashunin 2016), which is built one by one with a
// fixed seed: the same points give the same neighbours. Lookups are safe from several threads.
class Neighbors {
 public:
  // Above about as many a graph finds them sooner (bench/neighbors.cc).
  static constexpr size_t kExactUpTo = 8192;

  // `points` has at least one. `progress` gets the share that is built. Exact: O(1);
  // graph: O(n log n) distances.
  explicit Neighbors(
      LabelledPoints points, size_t exact_up_to = kExactUpTo,
      absl::FunctionRef<void(double)> progress = [](double) {});
  ~Neighbors();
  Neighbors(Neighbors&&) noexcept;

  const LabelledPoints& points() const { return points_; }
  bool exact() const { return graph_ == nullptr; }

  // Rows of the min(k, size) nearest, nearest first, equally near ones by row. `query`
  // has points().dimensions finite numbers. O(n·d), graph: O(d log n).
  std::vector<uint32_t> nearest(absl::Span<const float> query, uint32_t k) const;
  Evidence evidence(absl::Span<const float> query, uint32_t k) const;

 private:
  struct Graph;
  LabelledPoints points_;
  std::unique_ptr<Graph> graph_;
};

// The evidence of neighbours, given as their classes from the nearest on.
Evidence count(absl::Span<const uint32_t> classes_by_nearness, uint32_t classes);

// Evidence::answer of those neighbours, whose classes `counts` counts. At least one. O(k).
uint32_t majority(absl::Span<const uint32_t> classes_by_nearness,
                  absl::Span<const uint32_t> counts);

}  // namespace fermata::estimate
