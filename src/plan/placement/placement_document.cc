#include "plan/placement/placement_document.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"

namespace fermata::plan {
namespace {

constexpr int64_t kMaxSubclusters = 10'000;
constexpr int64_t kMaxSteps = 1'000'000'000'000;

PlacementModel read_model(Reader value, uint32_t subclusters) {
  ObjectReader fields = value.object();
  PlacementModel m;
  m.name = fields["name"].string();
  m.rate_rps = fields["rate_rps"].non_negative();
  m.static_mb = fields["static_mb"].non_negative();
  m.dynamic_mb = fields["dynamic_mb"].non_negative();
  m.change_cost = fields["change_cost"].non_negative(1.0);
  if (const Reader current = fields["current"]; current.present() && !current.is_null()) {
    m.current = static_cast<uint32_t>(current.integer(0, int64_t{subclusters} - 1));
  }
  return m;
}

const char* field_of(PlacementLimit limit) {
  switch (limit) {
    case PlacementLimit::kMemory:
      return "memory_mb";
    case PlacementLimit::kChangeCost:
      return "max_change_cost";
    case PlacementLimit::kSchedulerRate:
      return "max_scheduler_rate_rps";
    default:
      return "max_rate_rps";
  }
}

}  // namespace

PlacementProblem read_placement(Reader root) {
  ObjectReader fields = root.object();
  PlacementProblem p;
  p.subclusters = static_cast<uint32_t>(fields["subclusters"].integer(1, kMaxSubclusters));
  p.max_rate_rps = fields["max_rate_rps"].positive();
  p.memory_mb = fields["memory_mb"].positive();
  p.weight = fields["weight"].non_negative(p.weight);
  p.max_change_cost = fields["max_change_cost"].non_negative(p.max_change_cost);
  const Reader schedulers = fields["schedulers"];
  p.schedulers = static_cast<uint32_t>(schedulers.integer(1, kMaxSubclusters, 1));
  if (p.subclusters % p.schedulers != 0) schedulers.fail("a divisor of subclusters");
  p.max_scheduler_rate_rps = fields["max_scheduler_rate_rps"].positive(p.max_scheduler_rate_rps);
  p.seed = static_cast<uint64_t>(fields["seed"].integer(0, INT64_MAX, 1));
  p.max_steps = static_cast<uint64_t>(
      fields["max_steps"].integer(1, kMaxSteps, PlacementProblem::kDefaultSteps));
  absl::flat_hash_set<std::string> names;
  for (Reader model : fields["models"].list(1)) {
    p.models.push_back(read_model(model, p.subclusters));
    if (root.failed()) break;
    if (!names.insert(p.models.back().name).second) {
      model.object()["name"].fail("a name of its own");
    }
  }
  return p;
}

Json write_placement_problem(const PlacementProblem& problem) {
  Json out = {{"subclusters", problem.subclusters},
              {"max_rate_rps", problem.max_rate_rps},
              {"memory_mb", problem.memory_mb},
              {"weight", problem.weight}};
  if (std::isfinite(problem.max_change_cost)) out["max_change_cost"] = problem.max_change_cost;
  if (problem.schedulers > 1) out["schedulers"] = problem.schedulers;
  if (std::isfinite(problem.max_scheduler_rate_rps)) {
    out["max_scheduler_rate_rps"] = problem.max_scheduler_rate_rps;
  }
  out["seed"] = problem.seed;
  out["max_steps"] = problem.max_steps;
  out["models"] = Json::array();
  for (const PlacementModel& m : problem.models) {
    const Json current = m.current ? Json(*m.current) : Json(nullptr);
    out["models"].push_back({{"name", m.name},
                             {"rate_rps", m.rate_rps},
                             {"static_mb", m.static_mb},
                             {"dynamic_mb", m.dynamic_mb},
                             {"change_cost", m.change_cost},
                             {"current", current}});
  }
  return out;
}

Json write_placement(const PlacementProblem& problem, const Placement& placement) {
  Json out;
  out["feasible"] = placement.feasible;
  if (!placement.feasible) {
    out["binding"] = field_of(placement.binding);
    out["reason"] = placement.reason;
    out["exact"] = placement.exact;
    return out;
  }
  out["objective"] = placement.objective;
  out["rate_spread"] = placement.rate_spread;
  out["memory_spread"] = placement.memory_spread;
  out["rate_imbalance"] = placement.rate_imbalance;
  out["memory_imbalance"] = placement.memory_imbalance;
  out["change_cost"] = placement.change_cost;
  out["exact"] = placement.exact;
  Json assignment = Json::object(), schedulers = Json::object();
  for (size_t i = 0; i < problem.models.size(); ++i) {
    const std::string& name = problem.models[i].name;
    auto& rows = assignment.get_ref<Json::object_t&>();
    rows.push_back({name, placement.assignment[i]});
    const uint32_t share = problem.subclusters / problem.schedulers;
    schedulers.get_ref<Json::object_t&>().push_back({name, placement.assignment[i] / share});
  }
  out["assignment"] = std::move(assignment);
  if (problem.schedulers > 1) out["schedulers"] = std::move(schedulers);
  return out;
}

}  // namespace fermata::plan
