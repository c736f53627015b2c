#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "plan/streams/stream_document.h"
#include "plan/streams/stream_planner.h"

// Whatever the document asks for, it is refused or answered within its steps; every client is
// mapped once or unmapped; and a written problem reads as the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  auto document = Document::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  auto problem = document->read(plan::read_stream_problem);
  if (!problem.ok() || problem->clients.size() > 12) return 0;
  problem->max_steps = 2000;
  for (const auto solver :
       {plan::StreamSolver::kBest, plan::StreamSolver::kExact, plan::StreamSolver::kAnnealing}) {
    problem->solver = solver;
    const plan::StreamPlan plan = plan::plan_streams(*problem);
    FERMATA_CHECK(plan.served + plan.unmapped.size() == problem->clients.size());
    (void)write_json(plan::write_stream_plan(*problem, plan));
  }
  auto again = Document::parse(write_json(plan::write_stream_problem(*problem)));
  FERMATA_CHECK(again.ok() && again->read(plan::read_stream_problem).ok());
  return 0;
}
