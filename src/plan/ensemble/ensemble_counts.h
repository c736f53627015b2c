#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/ensemble/ensemble_tables.h"

namespace fermata::plan {

// The exact plan, by a dynamic program over the numbers of tasks that each model has got:
// what Algorithm 1 (Schemble, section VI-B) is when time vectors rather than quantised
// rewards index its table. It needs no rounding of rewards, and a cell holds one solution
// where the published table holds as many as do not dominate each other.
class EnsembleCounts {
 public:
  // How many sums solve() would compare: the values of all counts times the options of a query.
  static double work(const EnsembleTables& tables);

  // By place in the order, 0 where nobody answers. Of equal utilities the plan that takes the
  // models less time, then the one that leaves out later queries.
  void solve(const EnsembleTables& tables, std::vector<Subset>& subsets);

 private:
  using Vector = std::array<uint32_t, EnsembleProblem::kMostModels>;
  // The values after some queries, a dense array in which the first axis varies fastest. Not
  // reached: minus infinity.
  struct Layer {
    size_t first = 0, cells = 1;  // in values_
    Vector high = {};             // by axis, the most tasks
    Vector stride = {};           // by axis
  };
  void choose_axes(const EnsembleTables& tables);
  Layer layer_after(const EnsembleTables& tables, const Layer& before, size_t i) const;
  void fill(const EnsembleTables& tables, size_t i);
  void drop_late(const EnsembleTables& tables, size_t i, Vector at, double* row);
  void fill_row(const Layer& from, const Layer& to, const Vector& at, double* row);
  size_t best_end(const EnsembleTables& tables) const;
  Vector coordinates(const Layer& layer, size_t cell) const;

  size_t axes_ = 0;
  Vector model_of_ = {};  // by axis
  std::vector<Layer> layers_;
  std::vector<double> values_;
  struct Move {
    Vector step;  // by axis, 0 or 1
    double utility;
    Subset subset;
  };
  std::vector<Move> moves_;  // of the query at hand, the first is nobody
};

}  // namespace fermata::plan
