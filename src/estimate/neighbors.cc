#include "estimate/neighbors.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
// The header defines functions that are not inline: no other file may include it.
#include "hnswlib/hnswlib.h"

namespace fermata::estimate {
namespace {

using Near = std::pair<float, uint32_t>;  // squared distance and row: a total order

// The library's defaults for building; a wider search, for a recall above 0.99 of
// clustered points (tests/estimate/neighbors_test.cc).
constexpr size_t kLinks = 16, kBuildWidth = 200, kSearchWidth = 128;
constexpr size_t kSeed = 1;

std::vector<uint32_t> rows_of(std::vector<Near>& nearest) {
  std::sort(nearest.begin(), nearest.end());
  std::vector<uint32_t> rows(nearest.size());
  std::transform(nearest.begin(), nearest.end(), rows.begin(),
                 [](const Near& near) { return near.second; });
  return rows;
}

// A heap of the k nearest so far, the farthest at its top.
std::vector<Near> scan(const LabelledPoints& points, absl::Span<const float> query, size_t k) {
  hnswlib::L2Space space(points.dimensions);
  const auto distance = space.get_dist_func();
  std::vector<Near> heap;
  heap.reserve(k);
  for (uint32_t row = 0; row < points.size(); ++row) {
    const Near near{distance(query.data(), points.row(row).data(), space.get_dist_func_param()),
                    row};
    if (heap.size() < k) {
      heap.push_back(near);
      std::push_heap(heap.begin(), heap.end());
    } else if (near < heap.front()) {
      std::pop_heap(heap.begin(), heap.end());
      heap.back() = near;
      std::push_heap(heap.begin(), heap.end());
    }
  }
  return heap;
}

}  // namespace

struct Neighbors::Graph {
  Graph(const LabelledPoints& points, absl::FunctionRef<void(double)> progress)
      : space(points.dimensions), index(&space, points.size(), kLinks, kBuildWidth, kSeed) {
    for (size_t row = 0; row < points.size(); ++row) {
      index.addPoint(points.row(row).data(), row);
      progress(static_cast<double>(row + 1) / static_cast<double>(points.size()));
    }
    index.setEf(kSearchWidth);
  }

  std::vector<Near> search(absl::Span<const float> query, size_t k) const {
    // A wider search than k finds the ties, too.
    auto found = index.searchKnn(query.data(), std::max(k, kSearchWidth));
    std::vector<Near> nearest;
    nearest.reserve(found.size());
    for (; !found.empty(); found.pop()) {
      nearest.emplace_back(found.top().first, static_cast<uint32_t>(found.top().second));
    }
    std::sort(nearest.begin(), nearest.end());
    if (nearest.size() > k) nearest.resize(k);
    return nearest;
  }

  hnswlib::L2Space space;
  hnswlib::HierarchicalNSW<float> index;
};

Neighbors::Neighbors(LabelledPoints points, size_t exact_up_to,
                     absl::FunctionRef<void(double)> progress)
    : points_(std::move(points)) {
  FERMATA_CHECK(points_.size() > 0 && points_.dimensions > 0);
  if (points_.size() > exact_up_to) graph_ = std::make_unique<Graph>(points_, progress);
}

Neighbors::~Neighbors() = default;
Neighbors::Neighbors(Neighbors&&) noexcept = default;

std::vector<uint32_t> Neighbors::nearest(absl::Span<const float> query, uint32_t k) const {
  FERMATA_CHECK(query.size() == points_.dimensions);
  const size_t most = std::min<size_t>(k, points_.size());
  if (most == 0) return {};
  std::vector<Near> found;
  if (graph_ != nullptr) found = graph_->search(query, most);
  // A graph may not reach all of its points.
  if (found.size() < most) found = scan(points_, query, most);
  return rows_of(found);
}

Evidence Neighbors::evidence(absl::Span<const float> query, uint32_t k) const {
  std::vector<uint32_t> found = nearest(query, k);
  for (uint32_t& row : found) row = points_.labels[row];
  return count(found, points_.classes);
}

Evidence count(absl::Span<const uint32_t> classes_by_nearness, uint32_t classes) {
  Evidence evidence{.counts = std::vector<uint32_t>(classes)};
  for (const uint32_t label : classes_by_nearness) ++evidence.counts[label];
  if (!classes_by_nearness.empty()) {
    evidence.answer = majority(classes_by_nearness, evidence.counts);
  }
  return evidence;
}

uint32_t majority(absl::Span<const uint32_t> classes_by_nearness,
                  absl::Span<const uint32_t> counts) {
  uint32_t best = classes_by_nearness.front();
  for (const uint32_t label : classes_by_nearness) {
    if (counts[label] > counts[best]) best = label;
  }
  return best;
}

}  // namespace fermata::estimate
