#pragma once

#include <cstdint>
#include <vector>

#include "plan/variants/group_plan.h"
#include "plan/variants/group_runs.h"

namespace fermata::plan {

// How good a plan is: the sum of its utilities; of equal ones the plan that keeps
// the workers busy for less time (the faster variants), then the one that ends first.
struct GroupValue {
  double utility = 0;
  Duration busy;
  Time end;
};

// The exact part of Algorithm 1: every order of the groups, every variant, every
// worker and the short circuit, with what each worker holds at each moment. Depth-first,
// worker after worker; a branch ends where the most that it can still bring, or a
// branch seen before with the same groups done, is no worse. Among equal plans the
// first in document order stays. Worst case exponential in the groups (at most 64),
// linear in the requests.
class GroupSearch {
 public:
  static constexpr size_t kMostGroups = 64;

  // In: any plan and its value. Out: the best. False where max_steps evaluated runs did
  // not suffice to prove it; `plan` is then the best that was found.
  bool improve(const GroupTables& tables, const GroupRuns& runs, std::vector<GroupChoice>& plan,
               GroupValue value);
  uint64_t steps() const { return steps_; }

 private:
  // Optimistic: what a group can bring at most, and the least time for that.
  struct Bound {
    double utility;
    Duration busy;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Branch {
    uint32_t worker = 0, depth = 0;  // groups placed
    uint64_t remaining = 0;
    Time free;  // of the worker
    // The first group on the worker, and the least that may be: of workers that are alike, each
    // starts with a later group than the one before it, since other plans only rename them.
    uint32_t first = kNone, least_first = 0;
    GroupValue value;
  };
  struct Seen {
    GroupValue value;
    Time free;
    uint32_t first, least_first;
    uint64_t loaded;
  };
  void prepare();
  void prepare_workers();
  void prepare_sharing();
  void prepare_bounds();
  void open(Branch& branch, uint32_t worker);
  void extend(const Branch& branch);
  void place_next(const Branch& branch, const GroupValue& optimum);
  void close_worker(const Branch& branch);
  void finish(const Branch& branch);
  GroupValue optimum(const Branch& branch);
  void add_bounds(const Branch& branch, uint32_t group, Bound& bound);
  int compare(const GroupValue& a, const GroupValue& b) const;
  bool cannot_improve(const GroupValue& optimistic) const;
  bool seen_better(const Branch& branch);
  uint64_t loaded_key(const Branch& branch) const;

  std::span<const GroupVariant> variants(uint32_t group) const;
  uint32_t groups() const { return static_cast<uint32_t>(tables_->groups().size()); }
  uint32_t workers() const { return static_cast<uint32_t>(tables_->problem().workers.size()); }
  bool alike(uint32_t worker) const { return worker < workers() && alike_[worker]; }

  const GroupTables* tables_ = nullptr;
  const GroupRuns* runs_ = nullptr;
  double same_ = 0;  // utilities this close are one
  uint64_t steps_ = 0;
  bool exhausted_ = false, given_ = false;  // the best is still the plan that was given
  std::vector<GroupChoice>* best_ = nullptr;
  GroupValue best_value_;
  std::vector<GroupChoice> path_;
  std::vector<Residency> residency_;  // of the branch's worker, by depth
  std::vector<Bound> bounds_;         // by depth and group
  std::vector<Bound> later_;          // by worker and group: on it or a later one, as they are now
  std::vector<uint64_t> shared_;      // by group and variant: groups that could load it as well
  std::vector<bool> alike_;           // by worker: it is as the one before it
  std::vector<bool> roomy_;           // by worker: nothing is ever evicted
  std::vector<std::vector<Seen>> seen_;  // by worker and remaining groups
  bool remember_ = false;                // they are few enough
  size_t most_variants_ = 0;
};

}  // namespace fermata::plan
