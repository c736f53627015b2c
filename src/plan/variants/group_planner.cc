#include "plan/variants/group_planner.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"

namespace fermata::plan {

std::span<const std::string_view> group_policy_names() {
  static constexpr std::array<std::string_view, 6> kNames = {
      "sneakpeek", "grouped", "lo-priority", "lo-edf", "maxacc-edf", "fermata"};
  return kNames;
}

std::span<const std::string_view> published_group_policy_names() {
  return group_policy_names().first(static_cast<size_t>(GroupPolicy::kFermata));
}

const GroupSchedule& GroupPlanner::plan(const GroupProblem& problem) {
  FERMATA_CHECK(problem.policy != GroupPolicy::kFermata);
  schedule_.feasible = true;
  schedule_.exact = false;
  schedule_.utility = 0;
  schedule_.unserved = 0;
  schedule_.steps = 0;
  schedule_.batches.clear();
  schedule_.requests.clear();
  schedule_.short_circuited.clear();
  schedule_.expected_accuracy.clear();
  tables_.prepare(problem);
  local_.reset(tables_);
  choices_.clear();
  plan_.clear();
  const bool by_group =
      problem.policy == GroupPolicy::kSneakPeek || problem.policy == GroupPolicy::kGrouped;
  schedule_.feasible = by_group ? plan_groups() : plan_requests();
  if (schedule_.feasible) timeline_.fill(tables_, plan_, schedule_);
  return schedule_;
}

// Algorithm 1. The greedy plan is also what the exact search has to beat.
bool GroupPlanner::plan_groups() {
  tables_.prepare_groups();
  runs_.prepare(tables_);
  const auto groups = tables_.groups();
  ranked_.resize(groups.size());
  std::iota(ranked_.begin(), ranked_.end(), 0);
  std::sort(ranked_.begin(), ranked_.end(), [&](uint32_t a, uint32_t b) {
    return groups[a].priority != groups[b].priority ? groups[a].priority > groups[b].priority
                                                    : a < b;
  });
  for (const uint32_t g : ranked_) {
    GroupChoice& choice = choices_.emplace_back();
    if (!choose_for_group(g, choice)) {
      schedule_.unserved = groups[g].service;
      return false;
    }
  }
  if (groups.size() <= std::min<size_t>(tables_.problem().tau, GroupSearch::kMostGroups)) {
    schedule_.exact = search_.improve(tables_, runs_, choices_, value_of_choices());
    schedule_.steps = search_.steps();
  }
  assemble_groups();
  return true;
}

bool GroupPlanner::choose_for_group(uint32_t group, GroupChoice& choice) {
  const GroupProblem& problem = tables_.problem();
  const RequestGroup& g = tables_.groups()[group];
  choice.subject = group;
  std::optional<double> short_circuit;
  if (g.short_circuit) short_circuit = runs_.short_circuit_utility(group) / g.count;
  return local_.choose(
      problem.services[g.service], short_circuit,
      [&](uint32_t variant, uint32_t worker) {
        return runs_.length(group, variant, problem.workers[worker].type);
      },
      [&](uint32_t variant, uint32_t worker, Time start) {
        return runs_.utility(group, variant, problem.workers[worker].type, start) / g.count;
      },
      choice);
}

GroupValue GroupPlanner::value_of_choices() const {
  GroupValue value = {.busy = local_.busy(), .end = local_.last_finish()};
  for (const GroupChoice& c : choices_) {
    value.utility += c.value * tables_.groups()[c.subject].count;
  }
  return value;
}

bool GroupPlanner::plan_requests() {
  const GroupProblem& problem = tables_.problem();
  ranked_.resize(problem.requests.size());
  std::iota(ranked_.begin(), ranked_.end(), 0);
  const bool edf = problem.policy != GroupPolicy::kLoPriority;
  std::sort(ranked_.begin(), ranked_.end(), [&](uint32_t a, uint32_t b) {
    if (!edf) return tables_.before(a, b);
    const Time x = problem.requests[a].deadline, y = problem.requests[b].deadline;
    return x != y ? x < y : a < b;
  });
  for (const uint32_t r : ranked_) {
    GroupChoice& choice = choices_.emplace_back();
    if (!choose_for_request(r, choice)) {
      schedule_.unserved = problem.requests[r].service;
      return false;
    }
  }
  assemble_requests();
  return true;
}

// As if the request ran alone after what stands before it, each of that alone too (equation 1).
bool GroupPlanner::choose_for_request(uint32_t request, GroupChoice& choice) {
  const GroupService& service = tables_.service(request);
  const bool by_accuracy = tables_.problem().policy == GroupPolicy::kMaxAccEdf;
  choice.subject = request;
  std::optional<double> short_circuit;
  if (tables_.may_short_circuit(request)) {
    short_circuit =
        by_accuracy ? service.short_circuit->accuracy : tables_.short_circuit_utility(request);
  }
  const auto takes = [&](uint32_t variant, uint32_t worker) {
    return tables_.latency(service.variants[variant], worker)(1);
  };
  return local_.choose(
      service, short_circuit, takes,
      [&](uint32_t variant, uint32_t worker, Time start) {
        return by_accuracy ? tables_.accuracy(request, variant)
                           : tables_.utility(request, variant, start + takes(variant, worker));
      },
      choice);
}

// Workers have their choices in the order in which they were made.
void GroupPlanner::sort_choices_by_worker() {
  ranked_.resize(choices_.size());
  std::iota(ranked_.begin(), ranked_.end(), 0);
  std::sort(ranked_.begin(), ranked_.end(), [this](uint32_t a, uint32_t b) {
    return choices_[a].worker != choices_[b].worker ? choices_[a].worker < choices_[b].worker
                                                    : a < b;
  });
}

void GroupPlanner::assemble_groups() {
  sort_choices_by_worker();
  for (const uint32_t i : ranked_) {
    const GroupChoice& choice = choices_[i];
    const RequestGroup& g = tables_.groups()[choice.subject];
    const auto requests = tables_.requests_of(g);
    auto& to = choice.worker == GroupChoice::kShortCircuit ? plan_.short_circuited : plan_.order;
    if (choice.worker != GroupChoice::kShortCircuit) {
      plan_.runs.push_back({choice.worker, g.service, choice.variant,
                            static_cast<uint32_t>(plan_.order.size()), g.count});
    }
    to.insert(to.end(), requests.begin(), requests.end());
  }
}

// Neighbours with the same variant on the same worker join.
void GroupPlanner::assemble_requests() {
  sort_choices_by_worker();
  for (const uint32_t i : ranked_) {
    const GroupChoice& choice = choices_[i];
    if (choice.worker == GroupChoice::kShortCircuit) {
      plan_.short_circuited.push_back(choice.subject);
      continue;
    }
    const uint32_t service = tables_.problem().requests[choice.subject].service;
    const auto position = static_cast<uint32_t>(plan_.order.size());
    plan_.order.push_back(choice.subject);
    GroupRun* last = plan_.runs.empty() ? nullptr : &plan_.runs.back();
    if (last != nullptr && last->worker == choice.worker && last->service == service &&
        last->variant == choice.variant) {
      ++last->count;
    } else {
      plan_.runs.push_back({choice.worker, service, choice.variant, position, 1});
    }
  }
}

}  // namespace fermata::plan
