#pragma once

#include <cstdint>
#include <vector>

#include "plan/ensemble/ensemble_prices.h"
#include "plan/ensemble/ensemble_tables.h"

namespace fermata::plan {

// The dynamic program of EnsembleCounts where there are too many counts to look at all of them
// (many models, late deadlines). Of each layer it keeps the states that promise the most, by
// what prices say can still be reached from them. What it left out bounds how much better than
// its plan any other could be; it keeps more and more states until that is little enough, or
// until it has taken its steps.
class EnsembleSearch {
 public:
  // By place in the order, 0 where nobody answers. How much more utility another plan may have at
  // the most: usually the first width is enough for `within`. A step looks at one option of
  // one query once; few steps are taken, however few are allowed.
  double solve(const EnsembleTables& tables, double within, uint64_t max_steps,
               std::vector<Subset>& subsets);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Some queries' tasks, in the best way that makes these counts.
  struct State {
    TaskCounts counts;
    double utility;
    uint32_t before;  // in states_, without the last query
    Subset subset;    // the last query's
  };
  uint64_t search(const EnsembleTables& tables, size_t width);  // steps
  void set_worth(const EnsembleTables& tables, size_t i);
  void extend(const EnsembleTables& tables, size_t i, uint32_t index);
  double promise(const EnsembleTables& tables, size_t i, const State& state) const;
  void narrow(const EnsembleTables& tables, size_t i, size_t width);
  void offer(const State& state);
  void grow_slots();
  void trace(size_t queries, std::vector<Subset>& subsets);

  EnsemblePrices prices_;
  std::vector<State> states_;    // layer after layer
  size_t layer_ = 0;             // where the one that grows begins
  std::vector<uint32_t> slots_;  // hash table of that layer's states
  std::vector<double> worth_;    // of the options at hand, after paying
  double utility_ = 0;           // of the best plan so far
  double left_out_ = 0;          // no plan that was left out is worth more
};

}  // namespace fermata::plan
