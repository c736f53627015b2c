// Where looking at every point stops paying: time of a lookup of 5 neighbours, exact and
// by graph, and the graph's recall, over the count of points. Clusters of unit spread,
// ten classes; one core.
//
//   bench_neighbors [DIMENSIONS]
#include "estimate/neighbors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/random.h"

namespace {

using namespace fermata;

constexpr uint32_t kClasses = 10, kNeighbors = 5;
constexpr int kQueries = 500;

std::vector<float> point(uint32_t label, uint32_t dimensions, Random& random) {
  std::vector<float> values;
  for (uint32_t d = 0; d < dimensions; ++d) {
    values.push_back(static_cast<float>((d % kClasses == label ? 2 : 0) + random.normal()));
  }
  return values;
}

void compare(uint32_t n, uint32_t dimensions) {
  Random random(1);
  estimate::LabelledPoints points{.dimensions = dimensions, .classes = kClasses};
  for (uint32_t i = 0; i < n; ++i) {
    const std::vector<float> values = point(i % kClasses, dimensions, random);
    points.features.insert(points.features.end(), values.begin(), values.end());
    points.labels.push_back(i % kClasses);
  }
  const estimate::Neighbors exact(points, n);
  const Time start = monotonic_now();
  const estimate::Neighbors graph(std::move(points), 0);
  const double build_s = (monotonic_now() - start).seconds();
  Duration exact_time, graph_time;
  size_t found = 0;
  for (uint32_t i = 0; i < kQueries; ++i) {
    const std::vector<float> query = point(i % kClasses, dimensions, random);
    const Time t0 = monotonic_now();
    const auto all = exact.nearest(query, kNeighbors);
    const Time t1 = monotonic_now();
    const auto some = graph.nearest(query, kNeighbors);
    graph_time += monotonic_now() - t1;
    exact_time += t1 - t0;
    for (const uint32_t row : all) found += std::count(some.begin(), some.end(), row);
  }
  fmt::print("{:>8} {:>10.1f} {:>10.1f} {:>8.3f} {:>8.2f}\n", n,
             exact_time.seconds() * 1e6 / kQueries, graph_time.seconds() * 1e6 / kQueries,
             static_cast<double>(found) / (kQueries * kNeighbors), build_s);
}

}  // namespace

int main(int argc, char** argv) {
  const auto dimensions = static_cast<uint32_t>(argc > 1 ? std::stoul(argv[1]) : 64);
  fmt::print("{:>8} {:>10} {:>10} {:>8} {:>8}\n", "points", "exact, us", "graph, us", "recall",
             "build, s");
  for (const uint32_t n : {1024, 2048, 4096, 8192, 16384, 32768}) compare(n, dimensions);
}
