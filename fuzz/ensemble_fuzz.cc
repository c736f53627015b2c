#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/ensemble/ensemble_planner.h"

// Whatever the document asks for, it is refused or answered, every query is served on time or
// not at all, no greedy policy is worth more than the dynamic program, and the document that is
// written of it is answered alike.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  auto document = Document::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  auto task = document->read(plan::read_ensemble_task);
  if (!task.ok()) return 0;
  const plan::EnsembleProblem& problem = task->problem;
  plan::EnsemblePlanner planner;
  const plan::EnsemblePlan plan = planner.plan(problem, task->policy);
  FERMATA_CHECK(plan.plan.size() + plan.unserved.size() == problem.queries.size());
  for (const auto& served : plan.plan) {
    FERMATA_CHECK(served.subset != 0);
    FERMATA_CHECK(served.finish <= problem.queries[served.query].deadline);
  }
  const double within = problem.delta * static_cast<double>(problem.queries.size());
  const plan::EnsemblePlan& optimum = planner.plan(problem, plan::EnsemblePolicy::kDp);
  const double best = optimum.utility + optimum.gap;
  FERMATA_CHECK(plan.utility <= best + within + 1e-6);
  auto written = Document::parse(write_json(plan::to_document(*task)));
  FERMATA_CHECK(written.ok());
  auto again = written->read(plan::read_ensemble_task);
  FERMATA_CHECK(again.ok());
  FERMATA_CHECK(
      write_json(plan::write_ensemble_plan(*again, planner.plan(again->problem, again->policy))) ==
      write_json(plan::write_ensemble_plan(*task, plan)));
  return 0;
}
