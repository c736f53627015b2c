#pragma once

#include <array>
#include <vector>

#include "plan/ensemble/ensemble_tables.h"

namespace fermata::plan {

// Prices of tasks: what a place in the order pays for a task of each model, so that queries that
// each take what is worth most to them after paying do not ask for more tasks than there is
// room for. Lagrange multipliers of the rooms, by subgradient steps. They bound what any plan is
// worth from above, and plans that follow them are good. Memory is kept between calls.
class EnsemblePrices {
 public:
  // Looks at every option of every query as often as max_steps allow, once at least and some 150
  // times at most. How many it looked at.
  uint64_t fit(const EnsembleTables& tables, uint64_t max_steps);

  // No plan is worth more. The best plan that followed prices, by place, and its utility.
  double bound() const { return bound_; }
  double utility() const { return utility_; }
  const std::vector<Subset>& subsets() const { return subsets_; }

  using Vector = std::array<double, EnsembleProblem::kMostModels>;
  // Of a task at place i; at queries() all are 0.
  const Vector& price(size_t i) const { return price_[i]; }
  // What places from i on add to the bound of a plan that has no tasks before them: with
  // counts c of tasks and a value v before place i, no way to go on is worth more than
  // v + rest(i) - price(i) * c.
  double rest(size_t i) const { return rest_[i]; }

 private:
  void set_prices(const EnsembleTables& tables);
  void set_costs(const EnsembleTables& tables, size_t i);
  double follow(const EnsembleTables& tables);
  void follow_prices(const EnsembleTables& tables);
  void move(const EnsembleTables& tables, double bound);

  std::vector<Vector> multiplier_, best_multiplier_;  // by place
  std::vector<Vector> price_;                         // sums of multipliers from a place on
  std::vector<Vector> excess_;                        // tasks by a place, minus its room
  std::vector<double> rest_;
  std::vector<double> cost_;  // by subset, at the place at hand
  std::vector<Subset> subsets_, following_;
  double bound_ = 0, utility_ = 0;
};

}  // namespace fermata::plan
