#include "plan/ensemble/ensemble_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace fermata::plan {
namespace {

uint16_t tasks_until(Duration deadline, const BaseModel& model, size_t queries) {
  const auto all = static_cast<int64_t>(queries);
  if (deadline.is_infinite()) return static_cast<uint16_t>(all);
  if (deadline < model.busy + model.latency) return 0;
  if (model.latency <= Duration()) return static_cast<uint16_t>(all);
  const int64_t tasks = (deadline - model.busy).nanos() / model.latency.nanos();
  return static_cast<uint16_t>(std::min(tasks, all));
}

double rounded(double utility) { return std::ldexp(std::round(std::ldexp(utility, 40)), -40); }

}  // namespace

void EnsembleTables::build(const EnsembleProblem& problem, std::span<const uint32_t> order) {
  FERMATA_CHECK(problem.models.size() <= EnsembleProblem::kMostModels);
  FERMATA_CHECK(order.size() <= EnsembleProblem::kMostQueries);
  latency_.clear();
  for (const BaseModel& m : problem.models) latency_.push_back(m.latency);
  read_workers(problem);
  deadline_.clear();
  room_.assign(order.size(), {});
  options_.clear();
  first_.assign(1, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const EnsembleQuery& query = problem.queries[order[i]];
    for (size_t k = 0; k < models(); ++k) {
      room_[i][k] = tasks_until(query.deadline, problem.models[k], order.size());
    }
    deadline_.push_back(query.deadline);
    add_options(query, i);
    first_.push_back(options_.size());
  }
}

void EnsembleTables::read_workers(const EnsembleProblem& problem) {
  shared_.clear();
  for (size_t first = 0; first < problem.models.size(); ++first) {
    SharedWorker worker = {0, Duration()};
    for (size_t k = first; k < problem.models.size(); ++k) {
      if (problem.worker_of(k) != first) continue;
      worker.models |= estimate::only(static_cast<uint32_t>(k));
      worker.busy = std::max(worker.busy, problem.models[k].busy);
    }
    if (std::popcount(worker.models) > 1) shared_.push_back(worker);
  }
}

bool EnsembleTables::workers_have_time(size_t i, const TaskCounts& counts, Subset added) const {
  for (const SharedWorker& worker : shared_) {
    Duration end = worker.busy + time_of(worker.models & added);
    bool used = (worker.models & added) != 0;
    for (Subset rest = worker.models; rest != 0; rest &= rest - 1) {
      const auto k = static_cast<size_t>(std::countr_zero(rest));
      end += latency_[k] * counts[k];
      used = used || counts[k] > 0;
    }
    if (used && end > deadline_[i]) return false;
  }
  return true;
}

void EnsembleTables::add_options(const EnsembleQuery& query, size_t place) {
  FERMATA_CHECK(query.utility.size() == size_t{1} << models());
  best_part_.assign(query.utility.size(), 0.0);
  for (Subset s = 1; s < query.utility.size(); ++s) {
    double parts = 0;
    for (Subset rest = s; rest != 0; rest &= rest - 1) {
      parts = std::max(parts, best_part_[s & ~(rest & -rest)]);
    }
    const double utility = rounded(query.utility[s]);
    best_part_[s] = std::max(parts, utility);
    if (utility > parts && has_room(place, {}, s)) options_.push_back({s, utility});
  }
}

Duration EnsembleTables::time_of(Subset subset) const {
  Duration time;
  for (; subset != 0; subset &= subset - 1) {
    time += latency_[static_cast<size_t>(std::countr_zero(subset))];
  }
  return time;
}

bool EnsembleTables::best_alone(std::vector<Subset>& subsets) const {
  subsets.clear();
  TaskCounts counts = {};
  bool on_time = true;
  for (size_t i = 0; i < queries(); ++i) {
    EnsembleOption best = {0, 0};
    for (const EnsembleOption& o : options(i)) {
      const bool better = o.utility > best.utility ||
                          (o.utility == best.utility && time_of(o.subset) < time_of(best.subset));
      if (better) best = o;
    }
    subsets.push_back(best.subset);
    on_time = on_time && has_room(i, counts, best.subset);
    add_tasks(counts, best.subset);
  }
  return on_time;
}

}  // namespace fermata::plan
