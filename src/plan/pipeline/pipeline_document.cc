#include "plan/pipeline/pipeline_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "model/latency_at.h"
#include "model/latency_document.h"
#include "plan/document_parts.h"

namespace fermata::plan {
namespace {

constexpr size_t kMostStages = 64, kMostStageVariants = 256, kMostBatchSizes = 64;
constexpr int64_t kLargestPipelineBatch = 1'000'000;
constexpr int64_t kMostPipelineSteps = 1'000'000'000'000;
constexpr double kHighestRate = 1e9, kLargestWeight = 1e9, kHighestCost = 1e9;
constexpr double kLeastItems = 1e-6, kMostItems = 1e6;
constexpr double kSlaFactor = 5;  // Swayam's, as section 4.2 has it

std::vector<Reader> bounded_list(Reader value, size_t most) {
  auto values = value.list(1);
  if (values.size() > most) {
    value.fail(fmt::format("at most {}", most));
    values.clear();
  }
  return values;
}

PipelineVariant read_variant(Reader value, const std::vector<uint32_t>& sizes, Names& taken) {
  ObjectReader fields = value.object();
  PipelineVariant variant;
  variant.name = read_own_name(fields["name"], taken);
  variant.accuracy = fields["accuracy"].between(0, 1);
  variant.cost = fields["cost"].between(0, kHighestCost, 1.0);
  variant.latency = read_pipeline_latency(fields["latency_ms"], sizes);
  return variant;
}

PipelineStage read_stage(Reader value, const std::vector<uint32_t>& sizes, Names& taken) {
  ObjectReader fields = value.object();
  PipelineStage stage;
  stage.name = read_own_name(fields["name"], taken);
  stage.items = fields["items"].between(kLeastItems, kMostItems, 1.0);
  stage.max_replicas = fields["max_replicas"].positive(stage.max_replicas);
  Names variants;
  for (const Reader variant : bounded_list(fields["variants"], kMostStageVariants)) {
    stage.variants.push_back(read_variant(variant, sizes, variants));
    if (value.failed()) break;
  }
  fields["after"];
  return stage;
}

// Whether the stage comes after itself, by way of those that it comes after.
bool on_cycle(const std::vector<PipelineStage>& stages, uint32_t start) {
  std::vector<bool> seen(stages.size());
  std::vector<uint32_t> next = stages[start].after;
  while (!next.empty()) {
    const uint32_t s = next.back();
    next.pop_back();
    if (s == start) return true;
    if (seen[s]) continue;
    seen[s] = true;
    next.insert(next.end(), stages[s].after.begin(), stages[s].after.end());
  }
  return false;
}

// A second reading of the stages, when all names are known.
void read_order(const std::vector<Reader>& list, std::vector<PipelineStage>& stages) {
  absl::flat_hash_map<std::string, uint32_t> by_name;
  bool chain = true;
  for (uint32_t s = 0; s < stages.size(); ++s) {
    by_name[stages[s].name] = s;
    for (const auto& [field, _] : list[s].map()) chain = chain && field != "after";
  }
  for (uint32_t s = 1; chain && s < stages.size(); ++s) stages[s].after = {s - 1};
  if (chain) return;
  for (uint32_t s = 0; s < stages.size(); ++s) {
    for (const auto& [field, value] : list[s].map()) {
      if (field != "after") continue;
      Names taken;
      for (const Reader name : value.list()) {
        const auto found = by_name.find(read_own_name(name, taken));
        if (found == by_name.end()) return name.fail("the name of a stage");
        stages[s].after.push_back(found->second);
      }
    }
  }
  for (uint32_t s = 0; s < stages.size(); ++s) {
    if (on_cycle(stages, s)) return list[s].fail("a stage that does not come after itself");
  }
}

const char* limit_name(PipelineLimit limit) {
  switch (limit) {
    case PipelineLimit::kBatchSizes:
      return "batch_sizes";
    case PipelineLimit::kReplicas:
      return "max_replicas";
    case PipelineLimit::kCost:
      return "max_cost";
    case PipelineLimit::kSteps:
      return "max_steps";
    default:
      return "sla_ms";
  }
}

Json write_stage(const PipelineProblem& problem, const PipelineStage& stage) {
  Json out = {{"name", stage.name}, {"items", stage.items}, {"after", Json::array()}};
  if (std::isfinite(stage.max_replicas)) out["max_replicas"] = stage.max_replicas;
  for (const uint32_t p : stage.after) out["after"].push_back(problem.stages[p].name);
  for (const PipelineVariant& v : stage.variants) {
    out["variants"].push_back({{"name", v.name},
                               {"accuracy", v.accuracy},
                               {"cost", v.cost},
                               {"latency_ms", write_latency(v.latency)}});
  }
  return out;
}

}  // namespace

std::vector<uint32_t> read_pipeline_batch_sizes(Reader value) {
  if (!value.present()) return PipelineProblem().batch_sizes;
  std::vector<uint32_t> sizes;
  absl::flat_hash_set<uint32_t> taken;
  for (const Reader size : bounded_list(value, kMostBatchSizes)) {
    sizes.push_back(static_cast<uint32_t>(size.integer(1, kLargestPipelineBatch)));
    if (!taken.insert(sizes.back()).second) size.fail("each batch size once");
  }
  return sizes;
}

void read_pipeline_adapter_limits(ObjectReader& fields, PipelineProblem& limits) {
  limits.alpha = fields["alpha"].between(0, kLargestWeight, 10.0);
  limits.beta = fields["beta"].between(0, kLargestWeight, 1.0);
  limits.delta = fields["delta"].between(0, kLargestWeight, 1e-6);
  limits.batch_sizes = read_pipeline_batch_sizes(fields["batch_sizes"]);
}

LatencyModel read_pipeline_latency(Reader value, const std::vector<uint32_t>& batch_sizes) {
  LatencyModel latency = read_latency(value);
  for (const uint32_t batch : batch_sizes) {
    const auto ms = latency_ms(latency, batch);
    if (!ms || (*ms > 0 && *ms <= kLongestMs)) continue;
    value.fail(fmt::format("a latency above 0 and up to {} for a batch of {}, not {}", kLongestMs,
                           batch, *ms));
  }
  return latency;
}

double derived_sla_ms(const PipelineProblem& problem) {
  const size_t n = problem.stages.size();
  std::vector<double> end(n, 0);
  double longest = 0;
  for (size_t round = 0; round < n; ++round) {  // the longest path has at most n stages
    for (size_t s = 0; s < n; ++s) {
      double start = 0, sum = 0;
      for (const uint32_t p : problem.stages[s].after) start = std::max(start, end[p]);
      for (const PipelineVariant& v : problem.stages[s].variants) {
        sum += latency_ms(v.latency, 1).value_or(0);
      }
      end[s] = start + kSlaFactor * sum / static_cast<double>(problem.stages[s].variants.size());
      longest = std::max(longest, end[s]);
    }
  }
  return longest;
}

PipelineProblem read_pipeline(Reader root) { return read_pipeline_at(root, {}); }

PipelineProblem read_pipeline_at(Reader root, std::optional<double> rate_rps) {
  ObjectReader fields = root.object();
  PipelineProblem p;
  const Reader rate = fields["rate_rps"];
  p.rate_rps = rate.positive(rate_rps);
  if (p.rate_rps > kHighestRate) rate.fail(fmt::format("at most {}", kHighestRate));
  const Reader filling = fields["filling_rps"];
  if (filling.present()) p.filling_rps = filling.positive();
  const Reader sla = fields["sla_ms"];
  p.alpha = fields["alpha"].between(0, kLargestWeight);
  p.beta = fields["beta"].between(0, kLargestWeight);
  p.delta = fields["delta"].between(0, kLargestWeight, 1e-6);
  p.accuracy = static_cast<PipelineAccuracy>(fields["accuracy"].choice({"pas", "pas-prime"}, 0));
  p.batch_sizes = read_pipeline_batch_sizes(fields["batch_sizes"]);
  p.max_replicas = std::min(fields["max_replicas"].positive(p.max_replicas), p.max_replicas);
  p.max_cost = fields["max_cost"].positive(p.max_cost);
  p.max_steps = static_cast<uint64_t>(
      fields["max_steps"].integer(1, kMostPipelineSteps, PipelineProblem::kDefaultSteps));
  const std::vector<Reader> stages = bounded_list(fields["stages"], kMostStages);
  Names taken;
  for (const Reader stage : stages) {
    p.stages.push_back(read_stage(stage, p.batch_sizes, taken));
    if (root.failed()) return p;
  }
  read_order(stages, p.stages);
  if (root.failed()) return p;
  p.sla_ms = sla.present() ? sla.positive() : derived_sla_ms(p);
  return p;
}

Json write_pipeline_problem(const PipelineProblem& problem) {
  Json out = {{"rate_rps", problem.rate_rps},
              {"sla_ms", problem.sla_ms},
              {"alpha", problem.alpha},
              {"beta", problem.beta},
              {"delta", problem.delta},
              {"accuracy", problem.accuracy == PipelineAccuracy::kPas ? "pas" : "pas-prime"},
              {"batch_sizes", problem.batch_sizes}};
  if (problem.filling_rps > 0) out["filling_rps"] = problem.filling_rps;
  if (problem.max_replicas < PipelineProblem::kMostReplicas)
    out["max_replicas"] = problem.max_replicas;
  if (std::isfinite(problem.max_cost)) out["max_cost"] = problem.max_cost;
  out["max_steps"] = problem.max_steps;
  for (const PipelineStage& stage : problem.stages) {
    out["stages"].push_back(write_stage(problem, stage));
  }
  return out;
}

Json write_pipeline_plan(const PipelineProblem& problem, const PipelinePlan& plan) {
  Json out = {{"feasible", plan.feasible}};
  if (!plan.feasible) {
    out["binding"] = limit_name(plan.binding);
    out["reason"] = plan.reason;
    out["exact"] = plan.exact;
    return out;
  }
  out["objective"] = plan.objective;
  out["accuracy"] = plan.accuracy;
  out["cost"] = plan.cost;
  out["latency_ms"] = plan.latency_ms;
  out["exact"] = plan.exact;
  if (!plan.exact) out["gap"] = plan.gap;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PipelineStagePlan& stage = plan.stages[s];
    out["stages"].push_back({{"name", problem.stages[s].name},
                             {"variant", problem.stages[s].variants[stage.variant].name},
                             {"batch", stage.batch},
                             {"replicas", static_cast<int64_t>(stage.replicas)},
                             {"latency_ms", stage.latency_ms},
                             {"queueing_ms", stage.queueing_ms}});
  }
  return out;
}

}  // namespace fermata::plan
