#include "plan/pipeline/base_allocation_document.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "model/latency_at.h"
#include "model/latency_document.h"
#include "plan/document_parts.h"
#include "plan/pipeline/pipeline_document.h"

namespace fermata::plan {
namespace {

constexpr uint32_t kMostCores = 100'000;

LatencyByCores read_by_cores(Reader map, const std::vector<uint32_t>& batch_sizes) {
  LatencyByCores latencies;
  for (const auto& [name, value] : map.map()) {
    uint32_t cores = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), cores);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
    if (!whole || cores == 0 || cores > kMostCores || name[0] == '0') {
      value.fail("a number of cores from 1 to 100000 as its name");
    }
    latencies[cores] = read_pipeline_latency(value, batch_sizes);
  }
  if (latencies.empty()) map.fail("a latency for at least one number of cores");
  return latencies;
}

}  // namespace

BaseAllocationProblem read_base_allocation(Reader root) {
  ObjectReader fields = root.object();
  BaseAllocationProblem problem;
  problem.threshold_rps = fields["threshold_rps"].positive();
  problem.batch_sizes = read_pipeline_batch_sizes(fields["batch_sizes"]);
  Names taken;
  for (const Reader value : fields["variants"].list(1)) {
    ObjectReader variant = value.object();
    problem.names.push_back(read_own_name(variant["name"], taken));
    problem.variants.push_back(read_by_cores(variant["latency_ms"], problem.batch_sizes));
    if (root.failed()) break;
  }
  return problem;
}

Json write_base_allocation_problem(const BaseAllocationProblem& problem) {
  Json variants = Json::array();
  for (size_t v = 0; v < problem.names.size(); ++v) {
    Json latencies = Json::object();
    for (const auto& [cores, latency] : problem.variants[v]) {
      latencies[std::to_string(cores)] = write_latency(latency);
    }
    variants.push_back({{"name", problem.names[v]}, {"latency_ms", std::move(latencies)}});
  }
  return {{"threshold_rps", problem.threshold_rps},
          {"batch_sizes", problem.batch_sizes},
          {"variants", std::move(variants)}};
}

Json write_base_allocation(const BaseAllocationProblem& problem, const BaseAllocation& allocation) {
  Json cores = Json::object();
  bool feasible = true;
  for (size_t v = 0; v < problem.names.size(); ++v) {
    const auto& found = allocation.cores[v];
    cores.get_ref<Json::object_t&>().push_back(
        {problem.names[v], found ? Json(*found) : Json(nullptr)});
    feasible = feasible && found;
  }
  Json out = {{"feasible", feasible}};
  if (!feasible) out["binding"] = "threshold_rps";
  out["sla_ms"] = allocation.sla_ms > 0 ? Json(allocation.sla_ms) : Json(nullptr);
  out["cores"] = std::move(cores);
  return out;
}

}  // namespace fermata::plan
