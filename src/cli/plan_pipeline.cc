#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/plan.h"
#include "plan/pipeline/base_allocation_document.h"
#include "plan/pipeline/pipeline_document.h"
#include "plan/pipeline/pipeline_planner.h"

namespace fermata::cli {
namespace {

constexpr const char* kPipelineHelp = R"(
Example, with this document as video.yaml:
  fermata plan pipeline video.yaml > configuration.json

  rate_rps: 20
  sla_ms: 600
  alpha: 2        # accuracy against
  beta: 1         # cost
  max_replicas: 64
  stages:
    - name: detect
      variants:
        - {name: yolov5n, accuracy: 0.457, cost: 1, latency_ms: {table: {1: 80, 8: 481}}}
        - {name: yolov5m, accuracy: 0.641, cost: 2, latency_ms: {table: {1: 347, 8: 1654}}}
    - name: classify
      variants:
        - {name: resnet18, accuracy: 0.6975, cost: 1, latency_ms: {table: {1: 73, 8: 383}}}

Exit code 0: done. 2: the document is wrong. 3: nothing keeps the limits; `binding` names one.
)";

Exit run_pipeline(const std::string& file) {
  auto document = Document::load(file);
  if (!document.ok()) return refuse_plan(document.status());
  const auto problem = document->read(plan::read_pipeline);
  if (!problem.ok()) return refuse_plan(problem.status());
  const Time start = monotonic_now();
  const plan::PipelinePlan plan = plan::plan_pipeline(*problem);
  std::cerr << fmt::format("planned {} stages in {:.2f} ms\n", problem->stages.size(),
                           (monotonic_now() - start).millis());
  std::cout << write_json(plan::write_pipeline_plan(*problem, plan));
  return plan.feasible ? kDone : kInfeasible;
}

constexpr const char* kCoresHelp = R"(
Example, with this document as detectors.yaml:
  fermata plan cores detectors.yaml > cores.json

  threshold_rps: 4
  batch_sizes: [1, 2, 4]
  variants:
    - name: yolov5n
      latency_ms: {1: {alpha: 60, beta: 20}, 2: {alpha: 33, beta: 14}}   # by cores of a replica

Exit code 0: done. 2: the document is wrong. 3: some variant is too slow on all its cores.
)";

Exit run_cores(const std::string& file) {
  auto document = Document::load(file);
  if (!document.ok()) return refuse_plan(document.status());
  const auto problem = document->read(plan::read_base_allocation);
  if (!problem.ok()) return refuse_plan(problem.status());
  const auto allocation =
      plan::base_allocation(problem->variants, problem->batch_sizes, problem->threshold_rps);
  std::cout << write_json(plan::write_base_allocation(*problem, allocation));
  const bool all = std::all_of(allocation.cores.begin(), allocation.cores.end(),
                               [](const auto& cores) { return cores.has_value(); });
  return all ? kDone : kInfeasible;
}

void add_plan_cores(CLI::App& plan, int& exit_code) {
  CLI::App* cores = plan.add_subcommand(
      "cores", "Choose the cores of a replica of each variant (IPA, equation 1).");
  auto file = std::make_shared<std::string>();
  cores->add_option("FILE", *file, kPlanFile)->required();
  cores->footer(kCoresHelp);
  cores->callback([file, &exit_code] { exit_code = run_cores(*file); });
}

}  // namespace

void add_plan_pipeline(CLI::App& plan, int& exit_code) {
  CLI::App* pipeline = plan.add_subcommand(
      "pipeline",
      "Choose variant, batch size and replicas of each stage (IPA, equations 7 to 11).");
  auto file = std::make_shared<std::string>();
  pipeline->add_option("FILE", *file, kPlanFile)->required();
  pipeline->footer(kPipelineHelp);
  pipeline->callback([file, &exit_code] { exit_code = run_pipeline(*file); });
  add_plan_cores(plan, exit_code);
}

}  // namespace fermata::cli
