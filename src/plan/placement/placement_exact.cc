#include "plan/placement/placement_exact.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fermata::plan {
namespace {

class Branches {
 public:
  Branches(const PlacementProblem& problem, double bound, uint64_t steps)
      : problem_(problem),
        bound_(bound),
        steps_(steps),
        bins_(problem.subclusters),
        assignment_(problem.models.size()),
        order_(problem.models.size()) {
    for (const PlacementModel& m : problem.models) {
      rate_mean_ += m.rate_rps / problem.subclusters;
      memory_mean_ += m.static_mb / problem.subclusters;
      if (m.current && std::isfinite(problem.max_change_cost)) bins_[*m.current].special = true;
    }
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [this](uint32_t a, uint32_t b) { return size(a) > size(b); });
  }

  ExactPlacement run() {
    ExactPlacement result;
    result.finished = visit(0, 0);
    result.best = std::move(best_);
    return result;
  }

 private:
  struct Bin {
    double rate = 0, memory = 0, dynamic = 0;
    uint32_t models = 0;
    bool special = false;  // somebody lives there, so it is not like another empty one
  };

  double size(uint32_t i) const {
    const PlacementModel& m = problem_.models[i];
    return share(m.rate_rps, rate_mean_) + problem_.weight * share(m.static_mb, memory_mean_);
  }
  static double share(double amount, double mean) { return mean > 0 ? amount / mean : 0; }
  static bool within(double amount, double limit) { return amount <= limit * (1 + kRounding); }

  double cost_of(uint32_t i, uint32_t bin) const {
    const PlacementModel& m = problem_.models[i];
    if (!m.current) return m.change_cost;
    return *m.current == bin ? 0 : 2 * m.change_cost;
  }

  // What the loads alone already cost: a sub-cluster over the mean stays there.
  double least_objective(bool complete) const {
    double rate = 0, memory = 0;
    for (const Bin& b : bins_) {
      const double over_rate = b.rate - rate_mean_, over_memory = b.memory - memory_mean_;
      rate = std::max(rate, complete ? std::abs(over_rate) : over_rate);
      memory = std::max(memory, complete ? std::abs(over_memory) : over_memory);
    }
    return share(rate, rate_mean_) + problem_.weight * share(memory, memory_mean_);
  }

  bool visit(size_t depth, double cost);
  bool try_bin(size_t depth, uint32_t bin, double cost);

  const PlacementProblem& problem_;
  double bound_;
  uint64_t steps_;
  double rate_mean_ = 0, memory_mean_ = 0;
  std::vector<Bin> bins_;
  std::vector<uint32_t> assignment_, order_;
  std::optional<std::vector<uint32_t>> best_;
};

// False once the steps are used up.
bool Branches::visit(size_t depth, double cost) {
  if (steps_ == 0) return false;
  --steps_;
  const bool complete = depth == order_.size();
  const double least = least_objective(complete);
  if (least >= bound_) return true;
  if (complete) {
    bound_ = least;
    best_ = assignment_;
    return true;
  }
  bool tried_empty = false;
  for (uint32_t b = 0; b < bins_.size(); ++b) {
    const bool plain_empty = bins_[b].models == 0 && !bins_[b].special;
    if (plain_empty && tried_empty) continue;
    tried_empty |= plain_empty;
    if (!try_bin(depth, b, cost)) return false;
  }
  return true;
}

bool Branches::try_bin(size_t depth, uint32_t bin, double cost) {
  const uint32_t i = order_[depth];
  const PlacementModel& m = problem_.models[i];
  Bin& b = bins_[bin];
  const Bin before = b;
  b.rate += m.rate_rps;
  b.memory += m.static_mb;
  b.dynamic = std::max(b.dynamic, m.dynamic_mb);
  ++b.models;
  assignment_[i] = bin;
  cost += cost_of(i, bin);
  const bool keeps = within(b.rate, problem_.max_rate_rps) &&
                     within(b.memory + b.dynamic, problem_.memory_mb) &&
                     within(cost, problem_.max_change_cost);
  const bool in_time = !keeps || visit(depth + 1, cost);
  b = before;
  return in_time;
}

}  // namespace

ExactPlacement exact_placement(const PlacementProblem& problem, double bound, uint64_t steps) {
  return Branches(problem, bound, steps).run();
}

}  // namespace fermata::plan
