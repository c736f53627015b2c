#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "plan/variants/group_document.h"
#include "policy/variants/any_group_planner.h"

// Whatever the document asks for, it is refused or answered, every request is served once,
// and the document that is written of it is answered alike.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  auto document = Document::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  auto problem = document->read(plan::read_group_problem);
  if (!problem.ok()) return 0;
  problem->max_steps = std::min<uint64_t>(problem->max_steps, 2000);
  policy::AnyGroupPlanner planner;
  const plan::GroupSchedule schedule = planner.plan(*problem);
  if (schedule.feasible) {
    const size_t served = schedule.requests.size() + schedule.short_circuited.size();
    FERMATA_CHECK(served == problem->requests.size());
    FERMATA_CHECK(schedule.utility >= 0 && schedule.utility <= 1 + 1e-9);
  }
  auto written = Document::parse(write_json(plan::to_document(*problem)));
  FERMATA_CHECK(written.ok());
  auto again = written->read(plan::read_group_problem);
  FERMATA_CHECK(again.ok());
  FERMATA_CHECK(planner.plan(*again).utility == schedule.utility);
  (void)write_json(plan::write_group_schedule(*problem, schedule));
  return 0;
}
