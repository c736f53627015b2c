#include "plan/ensemble/ensemble_search.h"

#include <algorithm>
#include <cstring>

namespace fermata::plan {
namespace {

constexpr size_t kFirstWidth = 256, kLeastWidth = 4;
constexpr size_t kMostStates = 4'000'000;  // of all layers, some hundred megabytes
constexpr size_t kFewSlots = 1024;
constexpr double kSame = 1e-9;  // less than any delta

size_t hash(const TaskCounts& counts) {
  uint64_t half[2];
  static_assert(sizeof(half) == sizeof(counts));
  std::memcpy(half, counts.data(), sizeof(half));
  uint64_t h = half[0] * 0x9E3779B97F4A7C15u ^ half[1] * 0xC2B2AE3D27D4EB4Fu;
  return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u >> 16;
}

}  // namespace

double EnsembleSearch::solve(const EnsembleTables& tables, double within, uint64_t max_steps,
                             std::vector<Subset>& subsets) {
  uint64_t steps = prices_.fit(tables, max_steps / 2);
  subsets = prices_.subsets();
  utility_ = prices_.utility();
  double bound = prices_.bound();
  const size_t n = tables.queries();
  for (size_t width = kFirstWidth; bound > utility_ + std::max(within, kSame); width *= 4) {
    const uint64_t left = steps < max_steps ? max_steps - steps : 0;
    const size_t affordable = std::min<size_t>(left / (n + tables.options()), kMostStates / n);
    if (affordable < (width > kFirstWidth ? width / 2 : kLeastWidth)) break;
    steps += search(tables, std::min(width, affordable));
    bound = std::min(bound, left_out_);
    trace(n, subsets);
  }
  return bound > utility_ + kSame ? bound - utility_ : 0;
}

// All plans that may be worth more than the one that is known, but of no more states than
// `width` after each query.
uint64_t EnsembleSearch::search(const EnsembleTables& tables, size_t width) {
  states_.assign(1, {{}, 0, kNone, 0});
  slots_.assign(kFewSlots, kNone);
  layer_ = 0;
  left_out_ = utility_;
  uint64_t steps = 0;
  for (size_t i = 0; i < tables.queries(); ++i) {
    const size_t first = layer_;
    layer_ = states_.size();
    std::fill(slots_.begin(), slots_.end(), kNone);
    set_worth(tables, i);
    steps += (layer_ - first) * (1 + tables.options(i).size());
    for (size_t s = first; s < layer_; ++s) extend(tables, i, static_cast<uint32_t>(s));
    if (states_.size() - layer_ > width) narrow(tables, i, width);
  }
  return steps;
}

void EnsembleSearch::set_worth(const EnsembleTables& tables, size_t i) {
  worth_.clear();
  for (const EnsembleOption& o : tables.options(i)) {
    double worth = o.utility;
    for (Subset rest = o.subset; rest != 0; rest &= rest - 1) {
      worth -= prices_.price(i + 1)[static_cast<size_t>(std::countr_zero(rest))];
    }
    worth_.push_back(worth);
  }
}

// What can be reached at the most from a state after i queries.
double EnsembleSearch::promise(const EnsembleTables& tables, size_t i, const State& state) const {
  double bound = state.utility + prices_.rest(i);
  for (size_t k = 0; k < tables.models(); ++k) bound -= prices_.price(i)[k] * state.counts[k];
  return bound;
}

void EnsembleSearch::extend(const EnsembleTables& tables, size_t i, uint32_t index) {
  const State state = states_[index];
  const double without = promise(tables, i + 1, state), least = utility_ + kSame;
  if (without > least) offer({state.counts, state.utility, index, 0});
  const auto options = tables.options(i);
  for (size_t o = 0; o < options.size(); ++o) {
    if (without + worth_[o] <= least) continue;
    if (!tables.has_room(i, state.counts, options[o].subset)) continue;
    State after = {state.counts, state.utility + options[o].utility, index, options[o].subset};
    add_tasks(after.counts, after.subset);
    offer(after);
  }
}

void EnsembleSearch::narrow(const EnsembleTables& tables, size_t i, size_t width) {
  const auto first = states_.begin() + static_cast<ptrdiff_t>(layer_);
  const auto last = first + static_cast<ptrdiff_t>(width);
  std::nth_element(first, last, states_.end(), [&](const State& a, const State& b) {
    return promise(tables, i + 1, a) > promise(tables, i + 1, b);
  });
  left_out_ = std::max(left_out_, promise(tables, i + 1, *last));
  states_.erase(last, states_.end());
}

void EnsembleSearch::offer(const State& state) {
  if (2 * (states_.size() - layer_ + 1) > slots_.size()) grow_slots();
  size_t slot = hash(state.counts) & (slots_.size() - 1);
  while (slots_[slot] != kNone) {
    State& other = states_[slots_[slot]];
    if (other.counts == state.counts) {
      const bool better = state.utility > other.utility ||
                          (state.utility == other.utility && state.subset < other.subset);
      if (better) other = state;
      return;
    }
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = static_cast<uint32_t>(states_.size());
  states_.push_back(state);
}

void EnsembleSearch::grow_slots() {
  slots_.assign(2 * slots_.size(), kNone);
  for (size_t s = layer_; s < states_.size(); ++s) {
    size_t slot = hash(states_[s].counts) & (slots_.size() - 1);
    while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<uint32_t>(s);
  }
}

void EnsembleSearch::trace(size_t queries, std::vector<Subset>& subsets) {
  const auto better = [](const State& a, const State& b) { return a.utility < b.utility; };
  const auto best =
      std::max_element(states_.begin() + static_cast<ptrdiff_t>(layer_), states_.end(), better);
  if (best == states_.end() || best->utility <= utility_) return;
  utility_ = best->utility;
  const State* state = &*best;
  for (size_t i = queries; i-- > 0; state = &states_[state->before]) subsets[i] = state->subset;
}

}  // namespace fermata::plan
