#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/placement/placement.h"

namespace fermata::plan {

// One model to one sub-cluster.
struct Relocation {
  uint32_t model = 0, to = 0;
};

// An assignment under search: loads in units of the mean, so that a balanced
// sub-cluster has rate 1 and memory 1, and what one or two relocations change.
class PlacementState {
 public:
  PlacementState(const PlacementProblem& problem, std::vector<uint32_t> assignment);

  // What relocations (at most two, of different models) would lead to. The sum
  // of squared deviations plus penalties for equations 5 and 6; O(1), or
  // O(members) for sub-clusters whose memory is short. Leaves the state as it is.
  double energy_change(absl::Span<const Relocation> changes);
  // The cost of change it adds (equation 11); may be negative.
  double cost_change(absl::Span<const Relocation> changes) const;
  // After energy_change of the same: the objective plus penalties. O(subclusters).
  double value_after() const;
  void apply(absl::Span<const Relocation> changes);

  double value() const;
  double cost() const { return cost_; }
  uint32_t at(uint32_t model) const { return assignment_[model]; }
  const std::vector<uint32_t>& assignment() const { return assignment_; }
  const std::vector<uint32_t>& members(uint32_t bin) const { return bins_[bin].members; }
  // Models that are not where they were and had been somewhere.
  const std::vector<uint32_t>& away() const { return away_; }
  uint32_t home(uint32_t model) const { return models_[model].home; }
  // The sub-clusters that hold the largest deviation of rate and of memory.
  std::array<uint32_t, 2> worst() const;
  // The energy that relocating an average model costs a balanced placement.
  double typical_energy() const;

 private:
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  struct Model {
    double rate, memory, dynamic, cost;
    uint32_t home;           // kNowhere: a first load, free to go anywhere
    uint32_t member, moved;  // places in members and away_
  };
  struct Bin {
    double rate = 0, memory = 0;
    double energy = 0, excess = 0;
    std::vector<uint32_t> members;
  };
  struct Touched {  // a sub-cluster as it would become
    uint32_t bin;
    double rate, memory, energy, excess;
  };

  Touched& touch(uint32_t bin);
  void weigh(Touched& bin, absl::Span<const Relocation> changes) const;
  double largest_dynamic(uint32_t bin, absl::Span<const Relocation> changes) const;
  void set_home(uint32_t model, bool away);

  double weight_, rate_cap_, memory_cap_, penalty_, largest_dynamic_ = 0;
  double cost_ = 0;
  std::vector<Model> models_;
  std::vector<Bin> bins_;
  std::vector<uint32_t> assignment_, away_;
  std::array<Touched, 4> touched_{};
  size_t touched_count_ = 0;
};

}  // namespace fermata::plan
