#include "plan/variants/group_search.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "plan/variants/local_choice.h"

namespace fermata::plan {
namespace {

constexpr size_t kMostSeenLists = size_t{1} << 14;
constexpr size_t kLongestSeenList = 64;

uint64_t bit(uint32_t group) { return uint64_t{1} << group; }

bool same_worker(const GroupWorker& a, const GroupWorker& b, Time now) {
  return a.type == b.type && std::max(a.free_at, now) == std::max(b.free_at, now) &&
         a.memory_bytes == b.memory_bytes && a.loaded == b.loaded;
}

}  // namespace

bool GroupSearch::improve(const GroupTables& tables, const GroupRuns& runs,
                          std::vector<GroupChoice>& plan, GroupValue value) {
  FERMATA_CHECK(tables.groups().size() <= kMostGroups);
  tables_ = &tables;
  runs_ = &runs;
  best_ = &plan;
  best_value_ = value;
  given_ = true;
  exhausted_ = false;
  steps_ = 0;
  prepare();
  Branch root;
  for (uint32_t g = 0; g < groups(); ++g) root.remaining |= bit(g);
  root.value.end = tables.problem().now;
  open(root, 0);
  extend(root);
  return !exhausted_;
}

void GroupSearch::prepare() {
  same_ = kSameUtility * std::max<double>(1, static_cast<double>(tables_->order().size()));
  most_variants_ = 0;
  for (uint32_t g = 0; g < groups(); ++g) {
    most_variants_ = std::max(most_variants_, variants(g).size());
  }
  path_.resize(groups());
  if (residency_.size() <= groups()) residency_.resize(groups() + 1);
  bounds_.resize((groups() + 1) * groups());
  const size_t lists = groups() < 14 ? workers() << groups() : kMostSeenLists + 1;
  remember_ = lists <= kMostSeenLists;
  if (remember_ && seen_.size() < lists) seen_.resize(lists);
  for (size_t i = 0; remember_ && i < lists; ++i) seen_[i].clear();
  prepare_workers();
  prepare_sharing();
  prepare_bounds();
}

void GroupSearch::prepare_workers() {
  const GroupProblem& problem = tables_->problem();
  int64_t all = 0;
  for (const GroupModel& m : problem.models) all += m.memory_bytes;
  alike_.assign(workers(), false);
  roomy_.assign(workers(), false);
  for (uint32_t w = 0; w < workers(); ++w) {
    const auto& worker = problem.workers[w];
    alike_[w] = w > 0 && same_worker(worker, problem.workers[w - 1], problem.now);
    roomy_[w] = all <= worker.memory_bytes;
  }
}

void GroupSearch::prepare_sharing() {
  shared_.assign(groups() * most_variants_, 0);
  for (uint32_t g = 0; g < groups(); ++g) {
    for (uint32_t v = 0; v < variants(g).size(); ++v) {
      for (uint32_t other = 0; other < groups(); ++other) {
        for (const GroupVariant& theirs : variants(other)) {
          if (other != g && theirs.model == variants(g)[v].model) {
            shared_[g * most_variants_ + v] |= bit(other);
          }
        }
      }
    }
  }
}

void GroupSearch::prepare_bounds() {
  later_.resize((workers() + 1) * groups());
  Branch idle = {.remaining = ~uint64_t{0}};
  for (uint32_t g = 0; g < groups(); ++g) {
    const bool may = tables_->groups()[g].short_circuit;
    later_[workers() * groups() + g] = {may ? runs_->short_circuit_utility(g)
                                            : -std::numeric_limits<double>::infinity()};
  }
  for (uint32_t w = workers(); w-- > 0;) {
    const auto after = later_.begin() + (w + 1) * groups();
    std::copy_n(after, groups(), later_.begin() + w * groups());
    if (alike(w + 1)) continue;
    open(idle, w);
    for (uint32_t g = 0; g < groups(); ++g) add_bounds(idle, g, later_[w * groups() + g]);
  }
}

void GroupSearch::open(Branch& branch, uint32_t worker) {
  const GroupProblem& problem = tables_->problem();
  branch.least_first = 0;
  if (alike(worker)) branch.least_first = branch.first == kNone ? kNone : branch.first + 1;
  branch.first = kNone;
  branch.worker = worker;
  if (worker == workers()) return;
  branch.free = std::max(problem.now, problem.workers[worker].free_at);
  residency_[branch.depth].reset(problem.workers[worker], problem.models);
}

void GroupSearch::extend(const Branch& branch) {
  if (branch.remaining == 0 || branch.worker == workers()) return finish(branch);
  if (seen_better(branch)) return;
  const GroupValue most = optimum(branch);
  if (cannot_improve(most)) return;
  place_next(branch, most);
  close_worker(branch);
}

// Each remaining group where it would be best off if it came next, or on a later worker.
GroupValue GroupSearch::optimum(const Branch& branch) {
  GroupValue most = branch.value;
  for (uint64_t left = branch.remaining; left != 0; left &= left - 1) {
    const auto g = static_cast<uint32_t>(std::countr_zero(left));
    Bound& bound = bounds_[branch.depth * groups() + g];
    bound = later_[(branch.worker + 1) * groups() + g];
    add_bounds(branch, g, bound);
    most.utility += bound.utility;
    most.busy += bound.busy;
  }
  return most;
}

// A model that the worker does not hold counts as loaded where another remaining group may
// have it loaded.
void GroupSearch::add_bounds(const Branch& branch, uint32_t group, Bound& bound) {
  const GroupProblem& problem = tables_->problem();
  const Residency& residency = residency_[branch.depth];
  const uint32_t type = problem.workers[branch.worker].type;
  for (uint32_t v = 0; v < variants(group).size(); ++v) {
    const uint32_t model = variants(group)[v].model;
    if (!residency.fits(model)) continue;
    const uint64_t others = shared_[group * most_variants_ + v] & branch.remaining;
    const bool load = others == 0 && !residency.holds(model);
    const Duration before = load ? problem.models[model].load : Duration();
    const Duration busy = before + runs_->length(group, v, type);
    const double utility = runs_->utility(group, v, type, branch.free + before);
    ++steps_;
    if (utility > bound.utility + same_) {
      bound = {utility, busy};
    } else if (utility >= bound.utility - same_) {
      bound = {std::max(utility, bound.utility), std::min(busy, bound.busy)};
    }
  }
}

void GroupSearch::place_next(const Branch& branch, const GroupValue& optimum) {
  const GroupProblem& problem = tables_->problem();
  const uint32_t type = problem.workers[branch.worker].type;
  for (uint64_t left = branch.remaining; left != 0; left &= left - 1) {
    const auto g = static_cast<uint32_t>(std::countr_zero(left));
    if (branch.first == kNone && g < branch.least_first) continue;
    const Bound& bound = bounds_[branch.depth * groups() + g];
    for (uint32_t v = 0; v < variants(g).size(); ++v) {
      const uint32_t model = variants(g)[v].model;
      Residency& residency = residency_[branch.depth + 1];
      if (!residency_[branch.depth].fits(model)) continue;
      if (++steps_ > problem.max_steps) exhausted_ = true;
      if (exhausted_) return;
      const bool held = residency_[branch.depth].holds(model);
      const Duration load = held ? Duration() : problem.models[model].load;
      const Duration busy = load + runs_->length(g, v, type);
      Branch next = branch;
      next.free = branch.free + busy;
      next.value.utility += runs_->utility(g, v, type, branch.free + load);
      next.value.busy += busy;
      next.value.end = std::max(next.value.end, next.free);
      if (cannot_improve(
              {next.value.utility + optimum.utility - branch.value.utility - bound.utility,
               next.value.busy + optimum.busy - branch.value.busy - bound.busy, next.value.end})) {
        continue;
      }
      residency = residency_[branch.depth];
      residency.use(model);
      path_[branch.depth] = {.subject = g, .variant = v, .worker = branch.worker};
      ++next.depth;
      next.remaining &= ~bit(g);
      if (branch.first == kNone) next.first = g;
      extend(next);
    }
  }
}

void GroupSearch::close_worker(const Branch& branch) {
  if (exhausted_) return;
  Branch next = branch;
  open(next, branch.worker + 1);
  extend(next);
}

// What no worker has taken takes the short circuit.
void GroupSearch::finish(const Branch& branch) {
  GroupValue value = branch.value;
  for (uint64_t left = branch.remaining; left != 0; left &= left - 1) {
    const auto g = static_cast<uint32_t>(std::countr_zero(left));
    value.utility += later_[workers() * groups() + g].utility;
  }
  if (cannot_improve(value)) return;
  best_value_ = value;
  given_ = false;
  best_->assign(path_.begin(), path_.begin() + branch.depth);
  for (uint64_t left = branch.remaining; left != 0; left &= left - 1) {
    best_->push_back({.subject = static_cast<uint32_t>(std::countr_zero(left))});
  }
}

int GroupSearch::compare(const GroupValue& a, const GroupValue& b) const {
  if (a.utility > b.utility + same_) return 1;
  if (a.utility < b.utility - same_) return -1;
  if (a.busy != b.busy) return a.busy < b.busy ? 1 : -1;
  if (a.end != b.end) return a.end < b.end ? 1 : -1;
  return 0;
}

bool GroupSearch::cannot_improve(const GroupValue& optimistic) const {
  const int better = compare(optimistic, best_value_);
  return better < 0 || (better == 0 && !given_);
}

// What decides later loads and evictions, in 64 bits; 0 where it does not fit them.
uint64_t GroupSearch::loaded_key(const Branch& branch) const {
  const auto loaded = residency_[branch.depth].loaded();
  const size_t models = tables_->problem().models.size();
  uint64_t key = 1;
  if (roomy_[branch.worker]) {
    if (models > 63) return 0;
    for (const uint32_t m : loaded) key |= bit(m + 1);
    return key;
  }
  if (loaded.size() > 7 || models > 255) return 0;
  for (const uint32_t m : loaded) key = key << 8 | (m + 1);
  return key;
}

bool GroupSearch::seen_better(const Branch& branch) {
  if (!remember_) return false;
  const uint64_t loaded = loaded_key(branch);
  if (loaded == 0) return false;
  const bool any_first = !alike(branch.worker + 1);
  auto& list = seen_[(size_t{branch.worker} << groups()) | branch.remaining];
  for (const Seen& s : list) {
    if (s.loaded == loaded && s.free <= branch.free && s.least_first <= branch.least_first &&
        (any_first || s.first == branch.first) && s.value.utility >= branch.value.utility - same_ &&
        s.value.busy <= branch.value.busy && s.value.end <= branch.value.end) {
      return true;
    }
  }
  if (list.size() < kLongestSeenList) {
    list.push_back({branch.value, branch.free, branch.first, branch.least_first, loaded});
  }
  return false;
}

std::span<const GroupVariant> GroupSearch::variants(uint32_t group) const {
  return tables_->problem().services[tables_->groups()[group].service].variants;
}

}  // namespace fermata::plan
