#include "plan/placement/placement_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/placement/placement_state.h"

namespace fermata::plan {
namespace {

constexpr int kRounds = 4;
constexpr double kCooling = 1e-9;  // of the squared deviation of one model, over a round
constexpr uint64_t kStepsPerTemperature = 512;

// One or two relocations that may be worth a look.
struct Proposal {
  Relocation changes[2];
  size_t count = 0;
  absl::Span<const Relocation> span() const { return {changes, count}; }
};

class Search {
 public:
  Search(const PlacementProblem& problem, PlacementState state, Random& random)
      : problem_(problem), state_(std::move(state)), random_(random) {
    keep_if_best(state_.value());
  }

  void anneal(double hottest, uint64_t steps);
  void descend(uint64_t steps);
  void restart_from_best() { state_ = PlacementState(problem_, best_); }
  std::vector<uint32_t> take_best() { return std::move(best_); }
  const PlacementState& state() const { return state_; }

 private:
  uint32_t any_model() { return static_cast<uint32_t>(random_.below(problem_.models.size())); }
  uint32_t any_bin() { return static_cast<uint32_t>(random_.below(problem_.subclusters)); }
  Proposal propose(uint32_t model);
  bool affordable(const Proposal& p) const {
    const double allowed = problem_.max_change_cost * (1 + 1e-12);
    return state_.cost() + state_.cost_change(p.span()) <= allowed;
  }
  void keep_if_best(double value) {
    if (best_.empty() || value < best_value_) {
      best_value_ = value;
      best_ = state_.assignment();
    }
  }

  const PlacementProblem& problem_;
  PlacementState state_;
  Random& random_;
  double best_value_ = 0;
  std::vector<uint32_t> best_;
};

// A move, a swap, or a move paid for by sending another model home.
Proposal Search::propose(uint32_t model) {
  Proposal p;
  const uint64_t kind = random_.below(8);
  if (kind >= 2) {
    uint32_t other = any_model();
    const bool send_home = kind < 5 && !state_.away().empty();
    if (send_home) other = state_.away()[random_.below(state_.away().size())];
    if (other == model) return p;
    const uint32_t mine = state_.at(model), theirs = state_.at(other);
    if (send_home) {
      const uint32_t to = any_bin();
      if (to == mine) return p;
      p.changes[0] = {model, to};
      p.changes[1] = {other, state_.home(other)};
    } else {
      if (mine == theirs) return p;
      p.changes[0] = {model, theirs};
      p.changes[1] = {other, mine};
    }
    p.count = 2;
    return p;
  }
  p.changes[0] = {model, any_bin()};
  p.count = p.changes[0].to != state_.at(model);
  return p;
}

void Search::anneal(double hottest, uint64_t steps) {
  const double cool =
      portable_exp(portable_log(kCooling) * kStepsPerTemperature / std::max<double>(steps, 1));
  double temperature = hottest;
  for (uint64_t step = 0; step < steps; ++step) {
    if (step % kStepsPerTemperature == 0) temperature *= cool;
    const Proposal p = propose(any_model());
    if (p.count == 0 || !affordable(p)) continue;
    const double change = state_.energy_change(p.span());
    if (change > 0 && change > 20 * temperature) continue;
    if (change > 0 && change > random_.exponential(temperature)) continue;
    state_.apply(p.span());
  }
  keep_if_best(state_.value());
}

// Only a change that touches a worst sub-cluster can improve the objective.
void Search::descend(uint64_t steps) {
  double value = state_.value();
  std::array<uint32_t, 2> worst = state_.worst();
  for (uint64_t step = 0; step < steps; ++step) {
    const std::vector<uint32_t>& members = state_.members(worst[step % 2]);
    const bool inside = !members.empty() && step % 8 != 7;
    const Proposal p = propose(inside ? members[random_.below(members.size())] : any_model());
    if (p.count == 0 || !affordable(p)) continue;
    const double change = state_.energy_change(p.span());
    const double after = state_.value_after();
    if (after > value || (after == value && change >= 0)) continue;
    state_.apply(p.span());
    value = after;
    worst = state_.worst();
  }
  keep_if_best(state_.value());
}

}  // namespace

std::vector<uint32_t> first_placement(const PlacementProblem& problem) {
  std::vector<uint32_t> assignment(problem.models.size(), 0);
  std::vector<double> load(problem.subclusters, 0);
  std::vector<uint32_t> waiting;
  double rate = 1e-300, memory = 1e-300;
  for (const PlacementModel& m : problem.models) rate += m.rate_rps, memory += m.static_mb;
  const auto size = [&](uint32_t i) {
    const PlacementModel& m = problem.models[i];
    return m.rate_rps / rate + problem.weight * m.static_mb / memory;
  };
  for (uint32_t i = 0; i < assignment.size(); ++i) {
    if (const auto current = problem.models[i].current) {
      assignment[i] = *current;
      load[*current] += size(i);
    } else {
      waiting.push_back(i);
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [&](uint32_t a, uint32_t b) { return size(a) > size(b); });
  for (uint32_t i : waiting) {
    const auto least = std::min_element(load.begin(), load.end());
    assignment[i] = static_cast<uint32_t>(least - load.begin());
    *least += size(i);
  }
  return assignment;
}

std::vector<uint32_t> search_placement(const PlacementProblem& problem, std::vector<uint32_t> start,
                                       uint64_t steps, Random& random) {
  if (problem.models.empty() || problem.subclusters == 1) return start;
  Search search(problem, PlacementState(problem, std::move(start)), random);
  double hottest = search.state().typical_energy();
  for (int round = 0; round < kRounds; ++round) {
    search.anneal(hottest, steps / kRounds * 3 / 4);
    search.descend(steps / kRounds / 4);
    search.restart_from_best();
    hottest *= 0.1;
  }
  return search.take_best();
}

}  // namespace fermata::plan
