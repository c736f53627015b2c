#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "plan/pipeline/pipeline_document.h"
#include "plan/pipeline/pipeline_planner.h"

// Whatever the document asks for, it is rejected or answered; a feasible plan keeps every limit,
// and the document that is written of it is answered alike.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  auto document = Document::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  auto problem = document->read(plan::read_pipeline);
  if (!problem.ok()) return 0;
  problem->max_steps = std::min<uint64_t>(problem->max_steps, 100'000);
  const plan::PipelinePlan plan = plan::plan_pipeline(*problem);
  FERMATA_CHECK(plan.feasible != (plan.binding != plan::PipelineLimit::kNone));
  FERMATA_CHECK(plan.gap >= 0 && (plan.gap == 0 || !plan.exact));
  if (plan.feasible) {
    constexpr double kRoom = 1 + 1e-6;
    FERMATA_CHECK(plan.stages.size() == problem->stages.size());
    FERMATA_CHECK(plan.latency_ms <= problem->sla_ms * kRoom);
    FERMATA_CHECK(plan.cost <= problem->max_cost * kRoom);
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const auto& stage = plan.stages[s];
      FERMATA_CHECK(stage.replicas >= 1 && stage.replicas <= problem->max_replicas);
      const double rate = problem->rate_rps * problem->stages[s].items / 1e3;
      FERMATA_CHECK(stage.replicas * stage.batch * kRoom >= rate * stage.latency_ms);
    }
  }
  auto written = Document::parse(write_json(plan::write_pipeline_problem(*problem)));
  FERMATA_CHECK(written.ok());
  auto again = written->read(plan::read_pipeline);
  FERMATA_CHECK(again.ok());
  FERMATA_CHECK(write_json(plan::write_pipeline_plan(*again, plan::plan_pipeline(*again))) ==
                write_json(plan::write_pipeline_plan(*problem, plan)));
  return 0;
}
