#include "plan/streams/stream_planner.h"

#include <algorithm>

#include "base/random.h"
#include "plan/streams/stream_annealing.h"
#include "plan/streams/stream_exact.h"
#include "plan/streams/stream_refill.h"
#include "plan/streams/stream_search.h"
#include "plan/streams/stream_tables.h"

namespace fermata::plan {
namespace {

// About five milliseconds of refilling and as much of moves, a second of the others.
constexpr uint64_t kRefillSteps = 800'000, kMoves = 36'000, kExactSteps = 700'000'000,
                   kMappingSteps = 500'000'000;
// What `best` may spend on the optimum; after how many steps it looks for no other start.
constexpr uint64_t kQuickSteps = 30'000'000, kStartSteps = 250'000;
constexpr int kMostStarts = 6;
constexpr uint32_t kFewClients = 64;

std::vector<uint32_t> best_ranks(const StreamProblem& problem, const StreamTables& tables,
                                 const StreamGroups& groups) {
  std::vector<std::vector<uint32_t>> members(problem.workers);
  for (uint32_t c = 0; c < groups.size(); ++c) {
    if (groups[c] != kNoGroup) members[groups[c]].push_back(c);
  }
  std::vector<uint32_t> ranks;
  for (const auto& clients : members) ranks.push_back(best_rank(tables, clients));
  return ranks;
}

// The best of several annealed plans, the first as published.
StreamGroups good_start(const StreamProblem& problem, const StreamTables& tables, Random& random) {
  AnnealedStreams best;
  // With many clients the search alone may stay below the published plan, so that runs to its end.
  const uint64_t most = (tables.clients() <= kFewClients ? 2 : 20) * kStartSteps;
  uint64_t steps = 0;
  for (int i = 0; i < kMostStarts && (i == 0 || steps < kStartSteps); ++i) {
    const Annealing how = i == 0 ? Annealing::kPublished : Annealing::kThorough;
    AnnealedStreams next = anneal_streams(problem, tables, how, most, random);
    steps += next.steps;
    if (i == 0 || std::pair(next.served, next.accuracy) > std::pair(best.served, best.accuracy)) {
      best = std::move(next);
    }
  }
  return std::move(best.groups);
}

StreamPlan solve_best(const StreamProblem& problem, const StreamTables& tables, uint64_t moves,
                      Random& random) {
  const StreamGroups start = good_start(problem, tables, random);
  StreamRefill refill(tables, problem.workers, start, random);
  const uint64_t times = tables.clients() <= kFewClients ? 3 : 1;  // a step takes less time
  const StreamGroups& filled = refill.run(times * std::min(moves, kMoves) * kRefillSteps / kMoves);
  const StreamGroups groups = search_streams(tables, problem.workers, filled, moves, random);
  return make_stream_plan(problem, tables, groups, best_ranks(problem, tables, groups));
}

StreamPlan solve_exact(const StreamProblem& problem, const StreamTables& tables) {
  const StreamGroups groups = exact_streams(tables, problem.workers);
  StreamPlan plan = make_stream_plan(problem, tables, groups, best_ranks(problem, tables, groups));
  plan.exact = std::none_of(problem.variants.begin(), problem.variants.end(),
                            [](const StreamVariant& variant) { return variant.raised; });
  return plan;
}

bool within_steps(const StreamProblem& problem, uint64_t steps) {
  const auto clients = static_cast<uint32_t>(problem.clients.size());
  return clients <= kExactStreamClients &&
         exact_stream_steps(problem.workers, clients) <= static_cast<double>(steps);
}

}  // namespace

StreamPlan plan_streams(const StreamProblem& problem) {
  if (problem.clients.empty()) return {.exact = true};
  const StreamTables tables(problem);
  Random random(problem.seed);
  if (problem.solver == StreamSolver::kAnnealing) {
    const uint64_t steps = problem.max_steps.value_or(kMappingSteps);
    const AnnealedStreams annealed =
        anneal_streams(problem, tables, Annealing::kPublished, steps, random);
    return make_stream_plan(problem, tables, annealed.groups, annealed.ranks);
  }
  if (problem.solver == StreamSolver::kExact) {
    return within_steps(problem, problem.max_steps.value_or(kExactSteps))
               ? solve_exact(problem, tables)
               : solve_best(problem, tables, kMoves, random);
  }
  return within_steps(problem, kQuickSteps)
             ? solve_exact(problem, tables)
             : solve_best(problem, tables, problem.max_steps.value_or(kMoves), random);
}

}  // namespace fermata::plan
