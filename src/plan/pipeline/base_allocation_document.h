#pragma once

#include "base/document.h"
#include "plan/pipeline/base_allocation.h"

namespace fermata::plan {

struct BaseAllocationProblem {
  double threshold_rps = 0;
  std::vector<uint32_t> batch_sizes;
  std::vector<std::string> names;  // of the variants
  std::vector<LatencyByCores> variants;
};

// `fermata plan cores`: docs/schemas/cores.schema.json.
BaseAllocationProblem read_base_allocation(Reader root);
// The document that the former reads.
Json write_base_allocation_problem(const BaseAllocationProblem& problem);
Json write_base_allocation(const BaseAllocationProblem& problem, const BaseAllocation& allocation);

}  // namespace fermata::plan
