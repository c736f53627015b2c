#include "plan/pipeline/pipeline_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "model/latency_at.h"

namespace fermata::plan {
namespace {

double queueing_ms(const PipelineProblem& problem, const PipelineStage& stage, uint32_t batch) {
  const double rate = problem.filling_rps > 0 ? problem.filling_rps : problem.rate_rps;
  return (batch - 1) * 1e3 / (rate * stage.items);  // equation 7
}

bool beats(const StageOption& a, const StageOption& b) {
  return a.factor >= b.factor && a.value >= b.value && a.ms <= b.ms && a.cost <= b.cost;
}

std::vector<StageOption> unbeaten(std::vector<StageOption> options) {
  std::stable_sort(options.begin(), options.end(), [](const auto& a, const auto& b) {
    return std::tie(b.value, a.ms, b.factor) < std::tie(a.value, b.ms, a.factor);
  });
  std::vector<StageOption> kept;
  for (const StageOption& option : options) {
    const auto better = [&](const StageOption& other) { return beats(other, option); };
    if (std::none_of(kept.begin(), kept.end(), better)) kept.push_back(option);
  }
  return kept;
}

// A topological order that takes, of the stages that may come next, one that leaves the fewest
// open: those whose successors are not all taken.
std::vector<uint32_t> narrow_order(const std::vector<PipelineStage>& stages) {
  std::vector<uint32_t> waits_for(stages.size()), left(stages.size()), order;
  for (size_t s = 0; s < stages.size(); ++s) {
    waits_for[s] = static_cast<uint32_t>(stages[s].after.size());
    for (const uint32_t p : stages[s].after) ++left[p];
  }
  std::vector<bool> taken(stages.size());
  while (order.size() < stages.size()) {
    std::optional<uint32_t> best;
    int best_opens = 0;
    for (uint32_t s = 0; s < stages.size(); ++s) {
      if (taken[s] || waits_for[s] > 0) continue;
      const auto closes = std::count_if(stages[s].after.begin(), stages[s].after.end(),
                                        [&](uint32_t p) { return left[p] == 1; });
      const int opens = (left[s] > 0) - static_cast<int>(closes);
      if (best && opens >= best_opens) continue;
      best = s;
      best_opens = opens;
    }
    taken[*best] = true;
    order.push_back(*best);
    for (const uint32_t p : stages[*best].after) --left[p];
    for (size_t s = 0; s < stages.size(); ++s) {
      waits_for[s] -=
          static_cast<uint32_t>(std::count(stages[s].after.begin(), stages[s].after.end(), *best));
    }
  }
  return order;
}

void set_tails(std::vector<SearchStage>& stages) {
  for (size_t k = stages.size(); k-- > 0;) {
    for (const uint32_t p : stages[k].after) {
      stages[p].tail_ms = std::max(stages[p].tail_ms, stages[k].least_ms + stages[k].tail_ms);
    }
  }
}

// The end of each stage when each takes `ms`.
template <class Ms>
std::vector<double> ends(const std::vector<PipelineStage>& stages, Ms ms) {
  std::vector<double> end(stages.size());
  for (const uint32_t s : narrow_order(stages)) {
    for (const uint32_t p : stages[s].after) end[s] = std::max(end[s], end[p]);
    end[s] += ms(s);
  }
  return end;
}

double least(const std::vector<StageOption>& options, double StageOption::*field) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const StageOption& option : options) lowest = std::min(lowest, option.*field);
  return lowest;
}

std::vector<StageOption> within_replicas(const PipelineProblem& problem, const PipelineStage& stage,
                                         std::vector<StageOption> options) {
  const double most = std::min(problem.max_replicas, stage.max_replicas);
  std::erase_if(options, [&](const auto& o) { return o.replicas > most; });
  return options;
}

double longest(const std::vector<double>& ends) {
  return *std::max_element(ends.begin(), ends.end());
}

PipelinePlan bound_by(PipelineLimit limit, std::string reason) {
  PipelinePlan plan;
  plan.binding = limit;
  plan.reason = std::move(reason);
  return plan;
}

}  // namespace

std::vector<double> accuracy_scores(PipelineAccuracy accuracy, const PipelineStage& stage) {
  std::set<double> distinct;
  for (const PipelineVariant& v : stage.variants) distinct.insert(v.accuracy);
  const auto last = static_cast<double>(distinct.size() - 1);
  std::vector<double> scores;
  for (const PipelineVariant& v : stage.variants) {
    const auto rank = std::distance(distinct.begin(), distinct.find(v.accuracy));
    const double scaled = last > 0 ? static_cast<double>(rank) / last : 1.0;
    scores.push_back(accuracy == PipelineAccuracy::kPas ? v.accuracy : scaled);
  }
  return scores;
}

std::vector<StageOption> stage_options(const PipelineProblem& problem, const PipelineStage& stage) {
  const bool pas = problem.accuracy == PipelineAccuracy::kPas;
  const std::vector<double> scores = accuracy_scores(problem.accuracy, stage);
  std::vector<StageOption> options;
  for (uint32_t v = 0; v < stage.variants.size(); ++v) {
    const PipelineVariant& variant = stage.variants[v];
    for (const uint32_t batch : problem.batch_sizes) {
      const auto ms = latency_ms(variant.latency, batch);
      if (!ms) continue;
      const double needed = problem.rate_rps * stage.items * *ms / 1e3 / batch;
      const double replicas = std::max(1.0, std::ceil(needed * (1 - kPipelineRounding)));
      const double cost = replicas * variant.cost;
      const double value = -problem.beta * cost - problem.delta * batch;
      options.push_back({.variant = v,
                         .batch = batch,
                         .replicas = replicas,
                         .factor = pas ? scores[v] : 1.0,
                         .value = pas ? value : value + problem.alpha * scores[v],
                         .cost = cost,
                         .ms = *ms + queueing_ms(problem, stage, batch)});
    }
  }
  return options;
}

SearchSpace search_space(const PipelineProblem& problem) {
  SearchSpace space;
  space.weight = problem.accuracy == PipelineAccuracy::kPas ? problem.alpha : 0;
  space.sla_ms = problem.sla_ms * (1 + kPipelineRounding);
  space.max_cost = problem.max_cost * (1 + kPipelineRounding);
  std::vector<uint32_t> place(problem.stages.size());
  for (const uint32_t s : narrow_order(problem.stages)) {
    const PipelineStage& stage = problem.stages[s];
    place[s] = static_cast<uint32_t>(space.stages.size());
    SearchStage& searched = space.stages.emplace_back();
    searched.stage = s;
    for (const uint32_t p : stage.after) searched.after.push_back(place[p]);
    searched.options = unbeaten(within_replicas(problem, stage, stage_options(problem, stage)));
    searched.least_ms = least(searched.options, &StageOption::ms);
    searched.least_cost = least(searched.options, &StageOption::cost);
    searched.tail_ms = 0;
  }
  set_tails(space.stages);
  return space;
}

PipelinePlan evaluate(const PipelineProblem& problem, const std::vector<StageOption>& chosen) {
  const bool pas = problem.accuracy == PipelineAccuracy::kPas;
  PipelinePlan plan;
  plan.accuracy = pas ? 1 : 0;
  double batches = 0;
  for (size_t s = 0; s < chosen.size(); ++s) {
    const StageOption& option = chosen[s];
    const PipelineStage& stage = problem.stages[s];
    const double score = accuracy_scores(problem.accuracy, stage)[option.variant];
    plan.accuracy = pas ? plan.accuracy * score : plan.accuracy + score;
    plan.cost += option.cost;
    batches += option.batch;
    plan.stages.push_back(
        {.variant = option.variant,
         .batch = option.batch,
         .replicas = option.replicas,
         .latency_ms = *latency_ms(stage.variants[option.variant].latency, option.batch),
         .queueing_ms = queueing_ms(problem, stage, option.batch)});
  }
  plan.objective =
      problem.alpha * plan.accuracy - problem.beta * plan.cost - problem.delta * batches;
  plan.latency_ms = longest(ends(problem.stages, [&](uint32_t s) { return chosen[s].ms; }));
  plan.feasible = plan.latency_ms <= problem.sla_ms * (1 + kPipelineRounding) &&
                  plan.cost <= problem.max_cost * (1 + kPipelineRounding);
  return plan;
}

PipelinePlan infeasible(const PipelineProblem& problem) {
  std::vector<double> fastest, scaled_fastest;
  double least_cost = 0;
  for (const PipelineStage& stage : problem.stages) {
    const auto all = stage_options(problem, stage);
    if (all.empty()) {
      return bound_by(PipelineLimit::kBatchSizes,
                      fmt::format("no variant of {} has a latency for any batch size", stage.name));
    }
    const auto within = within_replicas(problem, stage, all);
    if (within.empty()) {
      return bound_by(PipelineLimit::kReplicas,
                      fmt::format("{} needs at least {} replicas, of at most {}", stage.name,
                                  least(all, &StageOption::replicas),
                                  std::min(problem.max_replicas, stage.max_replicas)));
    }
    fastest.push_back(least(all, &StageOption::ms));
    scaled_fastest.push_back(least(within, &StageOption::ms));
    least_cost += least(within, &StageOption::cost);
  }
  const double sla = problem.sla_ms * (1 + kPipelineRounding);
  const double path = longest(ends(problem.stages, [&](uint32_t s) { return fastest[s]; }));
  if (path > sla) {
    return bound_by(PipelineLimit::kSla, fmt::format("the fastest path takes {:.6g} ms", path));
  }
  const double scaled =
      longest(ends(problem.stages, [&](uint32_t s) { return scaled_fastest[s]; }));
  if (scaled > sla) {
    return bound_by(PipelineLimit::kReplicas,
                    fmt::format("within it the fastest path takes {:.6g} ms", scaled));
  }
  if (least_cost > problem.max_cost * (1 + kPipelineRounding)) {
    return bound_by(PipelineLimit::kCost, fmt::format("the least cost is {:.6g}", least_cost));
  }
  return bound_by(PipelineLimit::kCost, "what is fast enough costs more");
}

}  // namespace fermata::plan
