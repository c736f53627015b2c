#include "plan/pipeline/pipeline_planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "model/latency_at.h"
#include "plan/pipeline/pipeline_bounds.h"

namespace fermata::plan {
namespace {

constexpr double kResolution = 1e-11;  // of objectives, relative
constexpr size_t kFirstPassWidth = 32;
constexpr size_t kWider = 8;
constexpr double kBelow = 0.5, kAbove = 2;  // prices beside the best, for labels that differ
constexpr double kNothing = -std::numeric_limits<double>::infinity();

// A choice of options for the first stages.
struct Label {
  double factor, value, cost;
  double bound;  // of what may become of it
  uint32_t parent, option;
};

struct Level {
  std::vector<Label> labels;
  std::vector<double> ends;  // of the open stages, by label
};

class PipelineSearch {
 public:
  explicit PipelineSearch(const PipelineProblem& problem);
  PipelinePlan run();
  uint64_t steps() const { return steps_; }

 private:
  void consider(const std::vector<uint32_t>& choice);
  void pass(size_t width);
  void expand(size_t level, const Level& from);
  void extend(size_t level, const Level& from, uint32_t parent);
  bool place_ends(size_t level, const double* ends, double ms);
  double bound_of(size_t level, const Label& label, const double* ends) const;
  void keep_unbeaten(size_t level, size_t width, Level& to);
  bool beaten(const Level& to, size_t open, const Label& label, const double* ends);
  void finish(const Level& last);
  double threshold() const {
    return best_.feasible ? best_.objective + kResolution * std::max(1.0, std::abs(best_.objective))
                          : kNothing;
  }

  const PipelineProblem& problem_;
  const SearchSpace space_;
  const std::vector<std::vector<uint32_t>> open_;
  std::vector<double> cost_after_;  // at least, of the stages from a level on
  std::vector<LagrangianBound> bounds_;
  std::vector<Level> levels_;
  Level candidates_;
  std::vector<double> new_ends_;
  PipelinePlan best_;
  double upper_ = 0;  // no plan is worth more
  double cut_ = 0;    // nor is any that this pass has cut
  uint64_t steps_ = 0;
};

PipelineSearch::PipelineSearch(const PipelineProblem& problem)
    : problem_(problem),
      space_(search_space(problem)),
      open_(open_stages(space_)),
      cost_after_(space_.stages.size() + 1),
      levels_(space_.stages.size() + 1) {
  for (size_t k = space_.stages.size(); k-- > 0;) {
    cost_after_[k] = cost_after_[k + 1] + space_.stages[k].least_cost;
  }
}

PipelinePlan PipelineSearch::run() {
  PipelinePlan none = infeasible(problem_);
  none.exact = true;
  for (const SearchStage& stage : space_.stages) {
    if (stage.options.empty() || stage.least_ms + stage.tail_ms > space_.sla_ms) return none;
  }
  if (cost_after_[0] > space_.max_cost) return none;
  const DualBound dual = dual_bound(space_);
  for (const double share : {1.0, kBelow, kAbove}) {
    if (share != 1 && dual.total == 0) break;
    bounds_.emplace_back(space_, dual.mix, share * dual.total);
  }
  for (const auto& choice : dual.choices) consider(choice);
  upper_ = dual.value;
  for (size_t width = kFirstPassWidth; steps_ < problem_.max_steps; width *= kWider) {
    cut_ = kNothing;
    pass(width);
    if (steps_ < problem_.max_steps) upper_ = std::min(upper_, cut_);
    if (upper_ <= threshold()) break;
  }
  if (!best_.feasible) {
    if (upper_ == kNothing) return none;
    none.exact = false;
    none.binding = PipelineLimit::kSteps;
    none.reason = "no plan was found in so many steps";
    return none;
  }
  best_.exact = upper_ <= threshold();
  best_.gap = best_.exact ? 0 : upper_ - best_.objective;
  return best_;
}

void PipelineSearch::consider(const std::vector<uint32_t>& choice) {
  std::vector<StageOption> chosen(choice.size());
  for (size_t k = 0; k < choice.size(); ++k) {
    chosen[space_.stages[k].stage] = space_.stages[k].options[choice[k]];
  }
  PipelinePlan plan = evaluate(problem_, chosen);
  if (plan.feasible && (!best_.feasible || plan.objective > best_.objective)) best_ = plan;
}

void PipelineSearch::pass(size_t width) {
  levels_[0].labels = {
      {.factor = 1, .value = 0, .cost = 0, .bound = upper_, .parent = 0, .option = 0}};
  for (size_t level = 0; level < space_.stages.size(); ++level) {
    expand(level, levels_[level]);
    keep_unbeaten(level + 1, width, levels_[level + 1]);
    if (steps_ >= problem_.max_steps) return;
  }
  finish(levels_.back());
}

void PipelineSearch::expand(size_t level, const Level& from) {
  candidates_.labels.clear();
  candidates_.ends.clear();
  for (uint32_t i = 0; i < from.labels.size() && steps_ < problem_.max_steps; ++i) {
    if (from.labels[i].bound > threshold()) extend(level, from, i);
  }
}

void PipelineSearch::extend(size_t level, const Level& from, uint32_t parent) {
  const Label& label = from.labels[parent];
  const double* ends = from.ends.data() + parent * open_[level].size();
  const SearchStage& stage = space_.stages[level];
  steps_ += stage.options.size();
  for (uint32_t o = 0; o < stage.options.size(); ++o) {
    const StageOption& option = stage.options[o];
    Label next{.factor = label.factor * option.factor,
               .value = label.value + option.value,
               .cost = label.cost + option.cost,
               .bound = 0,
               .parent = parent,
               .option = o};
    if (next.cost + cost_after_[level + 1] > space_.max_cost) continue;
    if (!place_ends(level, ends, option.ms)) continue;
    next.bound = std::min(label.bound, bound_of(level + 1, next, new_ends_.data()));
    if (next.bound <= threshold()) continue;
    candidates_.labels.push_back(next);
    candidates_.ends.insert(candidates_.ends.end(), new_ends_.begin(), new_ends_.end());
  }
}

// The ends of the stages that are open after this one, or false: it can only end too late.
bool PipelineSearch::place_ends(size_t level, const double* ends, double ms) {
  const SearchStage& stage = space_.stages[level];
  const auto& before = open_[level];
  double start = 0;
  for (const uint32_t p : stage.after) {
    const auto slot = std::find(before.begin(), before.end(), p) - before.begin();
    start = std::max(start, ends[slot]);
  }
  const double end = start + ms;
  if (end + stage.tail_ms > space_.sla_ms) return false;
  new_ends_.clear();
  size_t slot = 0;
  for (const uint32_t p : open_[level + 1]) {
    if (p == level) {
      new_ends_.push_back(end);
    } else {
      while (before[slot] != p) ++slot;
      new_ends_.push_back(ends[slot]);
    }
  }
  return true;
}

double PipelineSearch::bound_of(size_t level, const Label& label, const double* ends) const {
  double least = std::numeric_limits<double>::infinity();
  for (const LagrangianBound& bound : bounds_) {
    least = std::min(least, bound.of(level, label.factor, label.value, label.cost, ends));
  }
  return least;
}

// The most promising first: none is beaten by one after it, but for rounding.
void PipelineSearch::keep_unbeaten(size_t level, size_t width, Level& to) {
  const auto& labels = candidates_.labels;
  const size_t open = open_[level].size();
  std::vector<uint32_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(labels[b].bound, labels[b].value, a) <
           std::tie(labels[a].bound, labels[a].value, b);
  });
  to.labels.clear();
  to.ends.clear();
  for (const uint32_t i : order) {
    if (to.labels.size() == width) {
      cut_ = std::max(cut_, labels[i].bound);
      return;
    }
    const double* ends = candidates_.ends.data() + i * open;
    if (steps_ >= problem_.max_steps) return;
    if (beaten(to, open, labels[i], ends)) continue;
    to.labels.push_back(labels[i]);
    to.ends.insert(to.ends.end(), ends, ends + open);
  }
}

bool PipelineSearch::beaten(const Level& to, size_t open, const Label& label, const double* ends) {
  const bool costs = std::isfinite(space_.max_cost);
  for (size_t i = 0; i < to.labels.size(); ++i) {
    const Label& other = to.labels[i];
    if (other.value < label.value || other.factor < label.factor) continue;
    if (costs && other.cost > label.cost) continue;
    const double* others = to.ends.data() + i * open;
    size_t k = 0;
    while (k < open && others[k] <= ends[k]) ++k;
    if (k < open) continue;
    steps_ += i / 8;
    return true;
  }
  steps_ += to.labels.size() / 8;
  return false;
}

// Labels of all stages: the best of them is the first.
void PipelineSearch::finish(const Level& last) {
  for (const Label& leaf : last.labels) {
    std::vector<uint32_t> choice(space_.stages.size());
    const Label* label = &leaf;
    for (size_t level = choice.size(); level-- > 0;) {
      choice[level] = label->option;
      label = &levels_[level].labels[label->parent];
    }
    consider(choice);
  }
}

PipelineProblem without(PipelineProblem problem, PipelineLimit limit) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  problem.alpha = problem.beta = problem.delta = 0;  // any plan will do
  if (limit == PipelineLimit::kSla) problem.sla_ms = std::numeric_limits<double>::max() / 4;
  if (limit == PipelineLimit::kCost) problem.max_cost = kNone;
  if (limit == PipelineLimit::kReplicas) {
    problem.max_replicas = kNone;
    for (PipelineStage& stage : problem.stages) stage.max_replicas = kNone;
  }
  return problem;
}

// The limit that `plan` names binds if something keeps the others without it; else one of which
// that is true, if there is one.
void find_binding(const PipelineProblem& problem, PipelinePlan& plan) {
  if (plan.binding == PipelineLimit::kBatchSizes) return;
  for (const PipelineLimit limit :
       {plan.binding, PipelineLimit::kSla, PipelineLimit::kReplicas, PipelineLimit::kCost}) {
    if (!PipelineSearch(without(problem, limit)).run().feasible) continue;
    if (limit != plan.binding) plan.reason = "without it something keeps all other limits";
    plan.binding = limit;
    return;
  }
  plan.reason += "; other limits cannot be kept either";
}

// Between two rates at which some replica would be full, as many replicas are needed everywhere
// and batches fill the faster the higher the rate: the last of them is the best. The highest such
// rate below this one, or the `first` of all; 0: there is none.
double last_rate_below(const PipelineProblem& problem, double rate, bool first) {
  double found = first ? rate : 0;
  for (const PipelineStage& stage : problem.stages) {
    for (const PipelineVariant& variant : stage.variants) {
      for (const uint32_t batch : problem.batch_sizes) {
        const auto ms = latency_ms(variant.latency, batch);
        if (!ms) continue;
        const double full = batch * 1e3 / (*ms * stage.items);  // one replica
        found =
            first ? std::min(found, full)
                  : std::max(found, full * (std::ceil(rate / full * (1 - kPipelineRounding)) - 1));
      }
    }
  }
  return found;
}

// Steps for several problems, of which each may take half of those that are left.
struct SharedSteps {
  uint64_t left, taken = 0;

  PipelinePlan plan(PipelineProblem& problem, double rate) {
    problem.rate_rps = rate;
    problem.max_steps = left / 2;
    PipelineSearch search(problem);
    PipelinePlan plan = search.run();
    left -= std::min(left, search.steps());
    plan.steps = taken += search.steps();
    return plan;
  }
};

// No rate from this one up to the problem's can be kept: not even if batches filled as at the
// problem's rate, which makes what can be kept monotone. 0: none can, from `least` on.
double rate_bound(PipelineProblem problem, double least, SharedSteps& steps) {
  constexpr double kNear = 1e-3;
  problem.filling_rps = std::max(problem.filling_rps, problem.rate_rps);
  double low = least, high = problem.rate_rps;
  const auto may_be_kept = [&](double rate) {
    const PipelinePlan plan = steps.plan(problem, rate);
    return plan.feasible || !plan.exact;
  };
  if (high <= low || !may_be_kept(low)) return 0;
  while (high - low > kNear * high) {
    const double middle = (low + high) / 2;
    (may_be_kept(middle) ? low : high) = middle;
  }
  return high;
}

}  // namespace

PipelinePlan plan_pipeline(const PipelineProblem& problem) {
  PipelineSearch search(problem);
  PipelinePlan plan = search.run();
  if (!plan.feasible && plan.exact) find_binding(problem, plan);
  plan.steps = search.steps();
  return plan;
}

PipelinePlan plan_most(PipelineProblem problem) {
  const double least = last_rate_below(problem, std::numeric_limits<double>::infinity(), true);
  double rate = last_rate_below(problem, problem.rate_rps, false);
  const uint64_t kept_back = problem.max_steps / 2;
  SharedSteps steps{problem.max_steps - kept_back};
  for (int round = 0; round < kMostRounds && rate > 0 && steps.left > 0; ++round) {
    PipelinePlan plan = steps.plan(problem, rate);
    if (plan.feasible) return plan;
    const double bound = rate_bound(problem, least, steps);
    if (bound == 0) return plan;
    rate = last_rate_below(problem, bound, false);
  }
  steps.left += kept_back;
  PipelinePlan most;
  for (; rate >= least && !most.feasible; rate *= 0.875) most = steps.plan(problem, rate);
  return most;
}

}  // namespace fermata::plan
