#pragma once

#include <vector>

#include "plan/pipeline/pipeline_options.h"

namespace fermata::plan {

// How much each limit counts, in sum 1: paths to the SLA as a flow through the DAG, and the cost.
struct LimitMix {
  std::vector<std::vector<double>>
      into;  // by stage: the flow from each of `after`, or what starts here
  double cost = 0;

  double through(uint32_t stage) const;
};

// Upper bounds on the objective by Lagrangian relaxation: every limit may be broken at a price of
// `total` times its share, and relative to the limit. What is left is, from stage k on, the best of
// w * (product of factors) + (sum of values) as a convex function of w, which is exact: the upper
// envelope of lines that are the previous envelope's, scaled and shifted by an option each.
class LagrangianBound {
 public:
  // O(stages * options * lines) with log factors.
  LagrangianBound(const SearchSpace& space, const LimitMix& mix, double total);

  // The choice that the relaxation makes, one option a stage, and its objective in it.
  double value() const;
  std::vector<uint32_t> choice() const;  // indices of options

  // Of all completions of a choice for the first `level` stages with these figures; `ends` are the
  // ends of the open stages, in the order of open_stages(). O(log lines + open stages).
  double of(size_t level, double factor, double value, double cost, const double* ends) const;

 private:
  struct Line {
    double slope, intercept, from;
    uint32_t option, next;
  };
  struct Level {
    std::vector<Line> lines;      // the best from `from` on, to that of the next
    double constant = 0;          // all prices that are not yet spent
    std::vector<double> per_end;  // by open stage
  };
  void set_prices(const SearchSpace& space, const LimitMix& mix, double total);
  void set_lines(const SearchSpace& space, const LimitMix& mix, double total, size_t level);
  static void keep_envelope(std::vector<Line>& lines, double to);
  static const Line& at(const Level& level, double w);

  double weight_, per_cost_;
  std::vector<Level> levels_;  // one more than stages
};

// By level: the stages before it with a successor at it or later.
std::vector<std::vector<uint32_t>> open_stages(const SearchSpace& space);

struct DualBound {
  double value;  // no feasible choice is worth more
  double total;
  LimitMix mix;
  std::vector<std::vector<uint32_t>> choices;  // that were met; some may be feasible
};

// A good price for every limit: the best total for a mix by tangents, the mix by fictitious play
// (the limit that the relaxation breaks most gets more).
DualBound dual_bound(const SearchSpace& space);

}  // namespace fermata::plan
