#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "plan/placement/placement_document.h"

// Whatever the document asks for, it is refused or answered, and an answer that
// says it is feasible keeps every limit.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  auto document = Document::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  auto problem = document->read(plan::read_placement);
  if (!problem.ok()) return 0;
  problem->max_steps = std::min<uint64_t>(problem->max_steps, 2000);
  const plan::Placement placement = plan::place(*problem);
  if (placement.feasible) FERMATA_CHECK(plan::evaluate(*problem, placement.assignment).feasible);
  (void)write_json(plan::write_placement(*problem, placement));
  return 0;
}
