#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/plan.h"
#include "plan/variants/group_document.h"
#include "policy/variants/any_group_planner.h"

namespace fermata::cli {
namespace {

constexpr const char* kGroupHelp = R"(
Example, with this document as window.yaml:
  fermata plan group window.yaml > schedule.json

  now_ms: 0
  workers:
    - {name: gpu0, free_at_ms: 3, loaded: [x3d-s], memory_mb: 12000}
  applications:
    - name: fall
      penalty: sigmoid
      prior: [0.5, 0.5]
      variants:
        - {name: x3d-s, latency_ms: {alpha: 2, beta: 9}, load_ms: 40, memory_mb: 300,
           recall: [0.95, 0.70], accuracy: 0.93, max_batch: 8}
      short_circuit: {name: knn, accuracy: 0.71}
  requests:
    - {id: r1, application: fall, arrival_ms: -20, deadline_ms: 130, evidence: [2, 3]}
  policy: sneakpeek

Exit code 0: done. 2: the document is wrong. 3: no worker has the memory for any variant
of an application.
)";

Exit run_group(const std::string& file) {
  auto document = Document::load(file);
  if (!document.ok()) return refuse_plan(document.status());
  const auto problem = document->read(plan::read_group_problem);
  if (!problem.ok()) return refuse_plan(problem.status());
  policy::AnyGroupPlanner planner;
  const Time start = monotonic_now();
  const plan::GroupSchedule& schedule = planner.plan(*problem);
  std::cerr << fmt::format("planned {} requests in {:.2f} ms, {} steps of the exact search\n",
                           problem->requests.size(), (monotonic_now() - start).millis(),
                           schedule.steps);
  std::cout << write_json(plan::write_group_schedule(*problem, schedule));
  return schedule.feasible ? kDone : kInfeasible;
}

}  // namespace

void add_plan_group(CLI::App& plan, int& exit_code) {
  CLI::App* group = plan.add_subcommand(
      "group", "Choose variants for groups of requests, and their order (SneakPeek, Algorithm 1).");
  auto file = std::make_shared<std::string>();
  group->add_option("FILE", *file, kPlanFile)->required();
  group->footer(kGroupHelp);
  group->callback([file, &exit_code] { exit_code = run_group(*file); });
}

}  // namespace fermata::cli
