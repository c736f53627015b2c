#include "cli/plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/commands.h"
#include "plan/placement/placement_document.h"

namespace fermata::cli {
namespace {

constexpr const char* kPlacementHelp = R"(
Example, with this document as epoch.yaml:
  fermata plan placement epoch.yaml > placement.json

  subclusters: 2
  max_rate_rps: 50000
  memory_mb: 11000
  models:
    - {name: m1, rate_rps: 120, static_mb: 90, dynamic_mb: 2100}
    - {name: m2, rate_rps: 80, static_mb: 110, dynamic_mb: 900, current: 1}

Exit code 0: done. 2: the document is wrong. 3: no placement keeps the limits.
)";

Exit run_placement(const std::string& file) {
  auto document = Document::load(file);
  if (!document.ok()) return refuse_plan(document.status());
  const auto problem = document->read(plan::read_placement);
  if (!problem.ok()) return refuse_plan(problem.status());
  const Time start = monotonic_now();
  const plan::Placement placement = plan::place(*problem);
  std::cerr << fmt::format("placed {} models on {} sub-clusters in {:.2f} s\n",
                           problem->models.size(), problem->subclusters,
                           (monotonic_now() - start).seconds());
  std::cout << write_json(plan::write_placement(*problem, placement));
  return placement.feasible ? kDone : kInfeasible;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* plan = app.add_subcommand("plan", "Solve one planning document, offline.");
  plan->require_subcommand(1);
  CLI::App* placement =
      plan->add_subcommand("placement", "Assign models to sub-clusters (Symphony, appendix A).");
  auto file = std::make_shared<std::string>();
  placement->add_option("FILE", *file, kPlanFile)->required();
  placement->footer(kPlacementHelp);
  placement->callback([file, &exit_code] { exit_code = run_placement(*file); });
  add_plan_group(*plan, exit_code);
  add_plan_ensemble(*plan, exit_code);
  add_plan_pipeline(*plan, exit_code);
  add_plan_streams(*plan, exit_code);
}

}  // namespace fermata::cli
