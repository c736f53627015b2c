#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/ensemble/ensemble_problem.h"

namespace fermata::plan {

// A way to answer a query.
struct EnsembleOption {
  Subset subset;
  double utility;
};

// Numbers of tasks by model.
using TaskCounts = std::array<uint16_t, EnsembleProblem::kMostModels>;

inline void add_tasks(TaskCounts& counts, Subset subset) {
  for (; subset != 0; subset &= subset - 1) {
    ++counts[static_cast<size_t>(std::countr_zero(subset))];
  }
}

// A problem as the search for its best plan sees it. With queries in order of their
// deadlines, which loses nothing (theorems 1 and 2), all tasks of a model take the same time,
// so when a query's tasks end says no more than how many tasks each model has got so far. A
// query that uses model k is on time if k has got at most `room` tasks by then, this one
// among them; and as deadlines only grow, that bound may as well hold for queries that do not
// use k. Where models share a worker, the same goes for the time of all tasks that it has got.
class EnsembleTables {
 public:
  // `order`: all queries, the earliest deadline first. O(queries * models * 2^models).
  void build(const EnsembleProblem& problem, std::span<const uint32_t> order);

  size_t queries() const { return first_.size() - 1; }
  size_t models() const { return latency_.size(); }
  Duration latency(size_t model) const { return latency_[model]; }
  // What place i of the order may be answered by, besides by nobody: subsets that are on time
  // alone and worth more than every part of them. Subsets ascend. Utilities are rounded to
  // multiples of 2^-40, so that sums of them are exact and equal where they should be.
  std::span<const EnsembleOption> options(size_t i) const {
    return std::span(options_).subspan(first_[i], first_[i + 1] - first_[i]);
  }
  size_t options() const { return options_.size(); }  // of all places
  const TaskCounts& room(size_t i) const { return room_[i]; }
  // Whether that still holds for place i when its models get these tasks more.
  bool has_room(size_t i, const TaskCounts& counts, Subset added) const {
    for (Subset subset = added; subset != 0; subset &= subset - 1) {
      const auto k = static_cast<size_t>(std::countr_zero(subset));
      if (counts[k] >= room_[i][k]) return false;
    }
    return shared_.empty() || workers_have_time(i, counts, added);
  }
  bool shares_workers() const { return !shared_.empty(); }
  // Of workers that several models share: whether they run these tasks, and those of `added`, by
  // the deadline of place i.
  bool workers_have_time(size_t i, const TaskCounts& counts, Subset added) const;

  // The option of each query that is best if there were no other query (0: nobody), and
  // whether that keeps every room: then no plan is better.
  bool best_alone(std::vector<Subset>& subsets) const;

 private:
  struct SharedWorker {
    Subset models;
    Duration busy;
  };
  void read_workers(const EnsembleProblem& problem);
  void add_options(const EnsembleQuery& query, size_t place);
  Duration time_of(Subset subset) const;

  std::vector<Duration> latency_;
  std::vector<SharedWorker> shared_;
  std::vector<Duration> deadline_;  // by place
  std::vector<TaskCounts> room_;
  std::vector<EnsembleOption> options_;
  std::vector<size_t> first_;
  std::vector<double> best_part_;  // by subset: the largest utility of it and its parts
};

}  // namespace fermata::plan
