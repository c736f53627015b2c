#include "plan/placement/placement_state.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fermata::plan {
namespace {

double inverse_mean(const PlacementProblem& p, double PlacementModel::*amount) {
  double sum = 0;
  for (const PlacementModel& m : p.models) sum += m.*amount;
  return sum > 0 ? p.subclusters / sum : 0;
}

}  // namespace

PlacementState::PlacementState(const PlacementProblem& problem, std::vector<uint32_t> assignment)
    : weight_(problem.weight), bins_(problem.subclusters), assignment_(std::move(assignment)) {
  const double per_rate = inverse_mean(problem, &PlacementModel::rate_rps);
  double per_mb = inverse_mean(problem, &PlacementModel::static_mb);
  if (per_mb == 0) per_mb = 1 / std::max(problem.memory_mb, 1.0);  // only dynamic memory
  rate_cap_ = problem.max_rate_rps * per_rate;
  memory_cap_ = problem.memory_mb * per_mb;
  penalty_ = 10 * (1 + weight_ * weight_);
  models_.reserve(problem.models.size());
  for (const PlacementModel& m : problem.models) {
    models_.push_back({m.rate_rps * per_rate, m.static_mb * per_mb, m.dynamic_mb * per_mb,
                       m.change_cost, m.current.value_or(kNowhere), 0, 0});
    largest_dynamic_ = std::max(largest_dynamic_, models_.back().dynamic);
  }
  for (uint32_t i = 0; i < models_.size(); ++i) {
    Bin& bin = bins_[assignment_[i]];
    bin.rate += models_[i].rate;
    bin.memory += models_[i].memory;
    models_[i].member = static_cast<uint32_t>(bin.members.size());
    bin.members.push_back(i);
    const bool moved = models_[i].home != kNowhere && models_[i].home != assignment_[i];
    if (models_[i].home == kNowhere) cost_ += models_[i].cost;
    if (moved) cost_ += 2 * models_[i].cost;
    if (moved) set_home(i, true);
  }
  for (uint32_t b = 0; b < bins_.size(); ++b) {
    Touched now{b, bins_[b].rate, bins_[b].memory, 0, 0};
    weigh(now, {});
    bins_[b].energy = now.energy;
    bins_[b].excess = now.excess;
  }
}

void PlacementState::weigh(Touched& t, absl::Span<const Relocation> changes) const {
  const double rho = t.rate - 1, sigma = weight_ * (t.memory - 1);
  t.excess = std::max(0.0, t.rate - rate_cap_);
  if (t.memory + largest_dynamic_ > memory_cap_) [[unlikely]] {
    t.excess += std::max(0.0, t.memory + largest_dynamic(t.bin, changes) - memory_cap_);
  }
  t.energy = rho * rho + sigma * sigma + penalty_ * t.excess;
}

double PlacementState::largest_dynamic(uint32_t bin, absl::Span<const Relocation> changes) const {
  double largest = 0;
  for (const Relocation& c : changes) {
    if (c.to == bin) largest = std::max(largest, models_[c.model].dynamic);
  }
  for (uint32_t m : bins_[bin].members) {
    const bool leaves = std::any_of(changes.begin(), changes.end(),
                                    [m](const Relocation& c) { return c.model == m; });
    if (!leaves) largest = std::max(largest, models_[m].dynamic);
  }
  return largest;
}

PlacementState::Touched& PlacementState::touch(uint32_t bin) {
  for (size_t i = 0; i < touched_count_; ++i) {
    if (touched_[i].bin == bin) return touched_[i];
  }
  return touched_[touched_count_++] = {bin, bins_[bin].rate, bins_[bin].memory, 0, 0};
}

double PlacementState::energy_change(absl::Span<const Relocation> changes) {
  touched_count_ = 0;
  for (const Relocation& c : changes) {
    const Model& m = models_[c.model];
    Touched& from = touch(assignment_[c.model]);
    from.rate -= m.rate;
    from.memory -= m.memory;
    Touched& to = touch(c.to);
    to.rate += m.rate;
    to.memory += m.memory;
  }
  double change = 0;
  for (size_t i = 0; i < touched_count_; ++i) {
    weigh(touched_[i], changes);
    change += touched_[i].energy - bins_[touched_[i].bin].energy;
  }
  return change;
}

double PlacementState::cost_change(absl::Span<const Relocation> changes) const {
  double change = 0;
  for (const Relocation& c : changes) {
    const Model& m = models_[c.model];
    if (m.home == kNowhere) continue;
    change += 2 * m.cost * ((c.to != m.home) - (assignment_[c.model] != m.home));
  }
  return change;
}

double PlacementState::value_after() const {
  double rate = 0, memory = 0, excess = 0;
  const auto take = [&](double r, double m, double e) {
    rate = std::max(rate, std::abs(r - 1));
    memory = std::max(memory, std::abs(m - 1));
    excess += e;
  };
  for (size_t i = 0; i < touched_count_; ++i) {
    take(touched_[i].rate, touched_[i].memory, touched_[i].excess);
  }
  for (uint32_t b = 0; b < bins_.size(); ++b) {
    const bool stays = std::none_of(touched_.begin(), touched_.begin() + touched_count_,
                                    [b](const Touched& t) { return t.bin == b; });
    if (stays) take(bins_[b].rate, bins_[b].memory, bins_[b].excess);
  }
  return rate + weight_ * memory + penalty_ * excess;
}

double PlacementState::value() const {
  double rate = 0, memory = 0, excess = 0;
  for (const Bin& b : bins_) {
    rate = std::max(rate, std::abs(b.rate - 1));
    memory = std::max(memory, std::abs(b.memory - 1));
    excess += b.excess;
  }
  return rate + weight_ * memory + penalty_ * excess;
}

void PlacementState::apply(absl::Span<const Relocation> changes) {
  cost_ += cost_change(changes);
  energy_change(changes);
  for (size_t i = 0; i < touched_count_; ++i) {
    const Touched& t = touched_[i];
    Bin& bin = bins_[t.bin];
    bin.rate = t.rate, bin.memory = t.memory, bin.energy = t.energy, bin.excess = t.excess;
  }
  for (const Relocation& c : changes) {
    Model& m = models_[c.model];
    std::vector<uint32_t>& before = bins_[assignment_[c.model]].members;
    models_[before.back()].member = m.member;
    before[m.member] = before.back();
    before.pop_back();
    m.member = static_cast<uint32_t>(bins_[c.to].members.size());
    bins_[c.to].members.push_back(c.model);
    const bool was_away = m.home != kNowhere && assignment_[c.model] != m.home;
    const bool is_away = m.home != kNowhere && c.to != m.home;
    assignment_[c.model] = c.to;
    if (was_away != is_away) set_home(c.model, is_away);
  }
}

void PlacementState::set_home(uint32_t model, bool away) {
  Model& m = models_[model];
  if (away) {
    m.moved = static_cast<uint32_t>(away_.size());
    away_.push_back(model);
  } else {
    FERMATA_CHECK(away_[m.moved] == model);
    models_[away_.back()].moved = m.moved;
    away_[m.moved] = away_.back();
    away_.pop_back();
  }
}

std::array<uint32_t, 2> PlacementState::worst() const {
  std::array<uint32_t, 2> worst{};
  for (uint32_t b = 1; b < bins_.size(); ++b) {
    if (std::abs(bins_[b].rate - 1) > std::abs(bins_[worst[0]].rate - 1)) worst[0] = b;
    if (std::abs(bins_[b].memory - 1) > std::abs(bins_[worst[1]].memory - 1)) worst[1] = b;
  }
  return worst;
}

double PlacementState::typical_energy() const {
  double sum = 0;
  for (const Model& m : models_) {
    sum += m.rate * m.rate + weight_ * weight_ * m.memory * m.memory;
  }
  return models_.empty() ? 0 : sum / static_cast<double>(models_.size());
}

}  // namespace fermata::plan
