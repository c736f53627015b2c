#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "policy/ensemble_document.h"
#include "policy/ensemble_planner.h"

// Whatever the document asks for, it is refused or answered, every query is served on time or
// not at all, no greedy policy is worth more than the dynamic program, and the document that is
// written of it is answered alike.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  auto document = Document::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  auto task = document->read(policy::read_ensemble_task);
  if (!task.ok()) return 0;
  const policy::EnsembleProblem& problem = task->problem;
  policy::EnsemblePlanner planner;
  const policy::EnsemblePlan plan = planner.plan(problem, task->policy);
  FERMATA_CHECK(plan.plan.size() + plan.unserved.size() == problem.queries.size());
  for (const auto& served : plan.plan) {
    FERMATA_CHECK(served.subset != 0);
    FERMATA_CHECK(served.finish <= problem.queries[served.query].deadline);
  }
  const double within = problem.delta * static_cast<double>(problem.queries.size());
  const double best = planner.plan(problem, policy::EnsemblePolicy::kDp).utility;
  FERMATA_CHECK(plan.utility <= best + within + 1e-6);
  auto written = Document::parse(write_json(policy::to_document(*task)));
  FERMATA_CHECK(written.ok());
  auto again = written->read(policy::read_ensemble_task);
  FERMATA_CHECK(again.ok());
  FERMATA_CHECK(write_json(policy::write_ensemble_plan(
                    again->problem, planner.plan(again->problem, again->policy))) ==
                write_json(policy::write_ensemble_plan(problem, plan)));
  return 0;
}
