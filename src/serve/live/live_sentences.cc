#include "serve/live/live_sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "plan/ensemble/ensemble_planner.h"
#include "policy/ensemble/ensemble_lookahead.h"
#include "policy/variants/any_group_planner.h"

namespace fermata::serve {
namespace {

// "1 request", "2 requests"
std::string many(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

using Counts = std::map<std::string, size_t>;

// As people call it: without the version and empty shape of a batch key ("small/1[]"), or the
// number that tells apart what a problem has of one service ("front#1").
std::string called(std::string name) {
  if (name.ends_with("[]")) name.resize(std::min(name.rfind('/'), name.size() - 2));
  const size_t mark = name.rfind('#');
  if (mark != std::string::npos && name.find_first_not_of("0123456789", mark + 1) == name.npos) {
    name.resize(mark);
  }
  return name;
}

// "3 of 'scans', 1 of 'count'"
std::string of_each(const Counts& counts) {
  std::vector<std::string> said;
  for (const auto& [name, count] : counts) said.push_back(fmt::format("{} of '{}'", count, name));
  return absl::StrJoin(said, ", ");
}

// "'small' for 3, 'large' for 1"
std::string for_each(const Counts& counts) {
  std::vector<std::string> said;
  for (const auto& [name, count] : counts) said.push_back(fmt::format("'{}' for {}", name, count));
  return absl::StrJoin(said, ", ");
}

std::string away(Duration until) {
  return until.is_infinite() ? "None of them had a deadline"
                             : fmt::format("The first deadline was {:.1f} ms away", until.millis());
}

template <class Workers>
std::string idle(const Workers& workers, Time now) {
  const auto count = absl::c_count_if(workers, [&](const auto& w) { return w.free_at <= now; });
  return fmt::format("{} of {} {} idle", count, many(workers.size(), "worker"),
                     count == 1 ? "was" : "were");
}

std::string sentence(const plan::GroupProblem& problem) {
  Counts services, chosen;
  Time first = Time::infinite();
  for (const plan::GroupRequest& request : problem.requests) {
    ++services[called(problem.services[request.service].name)];
    first = std::min(first, request.deadline);
  }
  policy::AnyGroupPlanner planner;
  const plan::GroupSchedule& schedule = planner.plan(problem);
  for (const plan::GroupBatch& batch : schedule.batches) {
    const plan::GroupVariant& variant = problem.services[batch.service].variants[batch.variant];
    chosen[called(problem.models[variant.model].name)] += batch.count;
  }
  const Duration left = first.is_infinite() ? Duration::infinite() : first - problem.now;
  return fmt::format("Of the requests that waited ({}), it planned {}. {}; {}.", of_each(services),
                     chosen.empty() ? "none" : for_each(chosen), away(left),
                     idle(problem.workers, problem.now));
}

std::string sentence(const plan::EnsembleTask& task) {
  Duration first = Duration::infinite();
  for (const auto& query : task.problem.queries) first = std::min(first, query.deadline);
  plan::EnsemblePlanner planner;
  const plan::EnsemblePlan& plan = planner.plan(task.problem, task.policy);
  Counts chosen;
  for (const auto& served : plan.plan) {
    for (size_t m = 0; m < task.problem.models.size(); ++m) {
      if ((served.subset >> m & 1) != 0) ++chosen[called(task.problem.models[m].name)];
    }
  }
  return fmt::format("Of {} that waited, {} will be answered: {}. {}.",
                     task.problem.queries.size() == 1
                         ? "1 query"
                         : fmt::format("{} queries", task.problem.queries.size()),
                     plan.plan.size(), chosen.empty() ? "none" : for_each(chosen), away(first));
}

std::string sentence(const plan::PoolProblem& problem) {
  Counts ensembles, wanted;
  Time first = Time::infinite();
  for (const auto& query : problem.queries) {
    ++ensembles[called(problem.ensembles[query.ensemble].name)];
    first = std::min(first, query.deadline);
  }
  policy::EnsembleLookahead planner;
  const plan::PoolPlan& plan = planner.plan(problem);
  for (const auto& planned : plan.planned) {
    const auto& models = problem.ensembles[problem.queries[planned.query].ensemble].models;
    for (size_t m = 0; m < models.size(); ++m) {
      if ((planned.subset >> m & 1) != 0) ++wanted[called(problem.models[models[m]].name)];
    }
  }
  const Duration left = first.is_infinite() ? Duration::infinite() : first - problem.start;
  const std::string begun =
      plan.model ? fmt::format("It started '{}' for {}.", called(problem.models[*plan.model].name),
                               plan.queries.size())
                 : "It started none: no base model was worth its time to others.";
  return fmt::format(
      "Of the queries that waited or ran ({}), base models are to answer: {}. {} {}; {}.",
      of_each(ensembles), wanted.empty() ? "none" : for_each(wanted), begun, away(left),
      idle(problem.workers, problem.start));
}

}  // namespace

std::string sentence(const engine::AdapterDecision& decision) {
  const plan::PipelineProblem& problem = decision.decision.problem;
  const plan::PipelinePlan& answer = decision.decision.answer;
  const std::string expected =
      fmt::format("It expects up to {:.1f} requests/s.", decision.forecast_rps);
  if (!answer.feasible) {
    return fmt::format("{} No plan keeps the limits ({}), so the variants stay.", expected,
                       answer.reason);
  }
  // On shared workers a replica of the problem is a part of one.
  const bool is_shared = problem.filling_rps > 0;
  const double parts = is_shared ? plan::PipelineAdapter::kShares : 1;
  std::vector<std::string> stages;
  for (size_t s = 0; s < answer.stages.size(); ++s) {
    const plan::PipelineStagePlan& own = answer.stages[s];
    const double count = own.replicas / parts;
    stages.push_back(fmt::format("'{}' runs '{}' in batches of {} on {:.3g} {}{}",
                                 problem.stages[s].name,
                                 problem.stages[s].variants[own.variant].name, own.batch, count,
                                 is_shared ? "worker" : "replica", count == 1 ? "" : "s"));
  }
  return fmt::format(
      "{} {}. That takes {:.1f} of {:.1f} ms. {}", expected, absl::StrJoin(stages, "; "),
      answer.latency_ms, problem.sla_ms,
      decision.decision.applied ? "The plan before was another." : "The plan before was the same.");
}

std::string sentence(const engine::StreamDecision& decision) {
  double rate = 0;
  for (const plan::StreamClient& client : decision.problem.clients) rate += client.rate_rps;
  std::vector<std::string> groups;
  size_t left_out = 0;
  for (const auto& group : decision.groups) {
    if (group.input_size == 0) {
      left_out += group.clients;
      continue;
    }
    groups.push_back(fmt::format("{} of '{}' at size {}", many(group.clients, "client"),
                                 group.service, group.input_size));
  }
  return fmt::format(
      "{} send {:.0f} frames/s together. It told {}; {}.",
      many(decision.problem.clients.size(), "client"), rate,
      groups.empty() ? "nobody to send" : absl::StrJoin(groups, ", "),
      left_out == 0 ? "all can be answered in time"
                    : fmt::format("{} of them cannot be answered in time at any size", left_out));
}

std::string sentence(const engine::PlacementDecision& decision) {
  return fmt::format("Decision {} ({}): {} to move{}.", decision.number, decision.cause,
                     many(decision.changes.size(), "model"),
                     decision.stayed ? "; that was not worth it, so all stay" : "");
}

std::string sentence(const policy::Problem& problem) {
  return std::visit([](const auto& own) { return sentence(own); }, problem);
}

}  // namespace fermata::serve
