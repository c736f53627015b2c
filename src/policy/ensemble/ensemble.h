#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/ids.h"
#include "plan/ensemble/ensemble_problem.h"
#include "policy/types.h"

namespace fermata::policy {

// Queries that several base models answer together, or some of them alone (Schemble,
// section IV). Which ones do is decided while a query waits; their answers are put together
// when the last of them has come, or the deadline.
struct EnsembleInfo {
  std::string name;
  std::vector<KeyId> models;  // at least one; bit k of a Subset is models[k]
  // How accurate the answer of a subset is, by bin of difficulty and Subset (section V-D).
  std::vector<std::vector<double>> utility;
  std::vector<double> share;  // how many of the queries are in each bin; they sum to 1
  bool serve_all = false;     // nothing is refused, however late it gets
  plan::Subset fixed = 0;     // what the scheduler `static` runs; 0: all
};

// By Subset, of a query of which nothing is known.
inline std::vector<double> mean_utility(const std::vector<std::vector<double>>& by_bin,
                                        const std::vector<double>& share) {
  std::vector<double> mean(by_bin.front().size());
  for (size_t bin = 0; bin < by_bin.size(); ++bin) {
    for (size_t s = 0; s < mean.size(); ++s) mean[s] += share[bin] * by_bin[bin][s];
  }
  return mean;
}

// What is predicted of a query from its data.
struct Difficulty {
  static constexpr uint32_t kUnknown = std::numeric_limits<uint32_t>::max();

  uint32_t bin = 0;  // of EnsembleInfo::utility; kUnknown: nothing was found
  double score = 0;  // the higher, the more difficult
  plan::Subset selected =
      0;  // what dynamic selection or gating would run, for the scheduler `selected`
};

}  // namespace fermata::policy
