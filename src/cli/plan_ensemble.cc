#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/plan.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/ensemble/ensemble_planner.h"
#include "plan/ensemble/pool_document.h"
#include "policy/ensemble/ensemble_lookahead.h"

namespace fermata::cli {
namespace {

constexpr const char* kEnsembleHelp = R"(
Example, with this document as queue.yaml:
  fermata plan ensemble queue.yaml > tasks.json

  models:
    - {name: a, latency_ms: 30, busy_ms: 12}
    - {name: b, latency_ms: 45, busy_ms: 0}
  queries:
    - {id: q1, deadline_ms: 105, utility: {a: 0.81, b: 0.86, a+b: 0.97}}
    - {id: q2, deadline_ms: 60, utility: {a: 0.70, b: 0.75, a+b: 0.90}}
  delta: 0.01
  policy: dp

Exit code 0: done. 2: the document is wrong.
)";

Json planned(const plan::EnsembleTask& task) {
  plan::EnsemblePlanner planner;
  return plan::write_ensemble_plan(task, planner.plan(task.problem, task.policy));
}

Json planned(const plan::PoolProblem& problem) {
  policy::EnsembleLookahead planner;
  return plan::write_pool_plan(problem, planner.plan(problem));
}

size_t queries_of(const plan::EnsembleTask& task) { return task.problem.queries.size(); }
size_t queries_of(const plan::PoolProblem& problem) { return problem.queries.size(); }

Exit run_ensemble(const std::string& file) {
  auto document = Document::load(file);
  if (!document.ok()) return refuse_plan(document.status());
  const auto task = document->read(plan::read_any_ensemble_task);
  if (!task.ok()) return refuse_plan(task.status());
  const Time start = monotonic_now();
  const Json plan = std::visit([](const auto& each) { return planned(each); }, *task);
  const size_t queries = std::visit([](const auto& each) { return queries_of(each); }, *task);
  std::cerr << fmt::format("planned {} queries in {:.2f} ms\n", queries,
                           (monotonic_now() - start).millis());
  std::cout << write_json(plan);
  return kDone;
}

}  // namespace

void add_plan_ensemble(CLI::App& plan, int& exit_code) {
  CLI::App* ensemble = plan.add_subcommand(
      "ensemble", "Choose base models for queries, and their order (Schemble, Algorithm 1).");
  auto file = std::make_shared<std::string>();
  ensemble->add_option("FILE", *file, kPlanFile)->required();
  ensemble->footer(kEnsembleHelp);
  ensemble->callback([file, &exit_code] { exit_code = run_ensemble(*file); });
}

}  // namespace fermata::cli
