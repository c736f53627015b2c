// Where models live when a worker cannot hold all of them.
#include <spdlog/spdlog.h>

#include <cmath>

#include "base/status.h"
#include "engine/host/real_engine.h"

namespace fermata::engine {
namespace {

// How long a change waits for room that is being given back: for what waits and runs there.
constexpr Duration kPatience = Duration::seconds(5);
// Of one solution: about a tenth of a second, beside serving.
constexpr uint64_t kPlanSteps = 2'000'000;
constexpr double kAnyChange = std::numeric_limits<double>::infinity();

// Versions of a model live together.
void add_memory(const Registry::Variants& variants, plan::PlacementModel& unit) {
  for (const auto& variant : variants) {
    unit.static_mb += variant->memory.static_mb;
    unit.dynamic_mb = std::max(unit.dynamic_mb, variant->memory.dynamic_mb);
  }
}

bool no_room(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted;
}

absl::Status unplaced(std::string_view reason) {
  return error(absl::StatusCode::kUnavailable, "{}", reason);
}

}  // namespace

bool RealEngine::memory_is_limited() const {
  return std::isfinite(options_.workers.least_memory_mb()) &&
         options_.workers.residency == Residency::kPlaced;
}

plan::PlacementProblem RealEngine::problem(
    double max_change_cost, const std::map<std::string, Variants>& without_room) const {
  plan::PlacementProblem problem{.subclusters = pool_ == nullptr ? 1 : pool_->size(),
                                 .max_rate_rps = options_.placement.max_rate_rps,
                                 .memory_mb = options_.workers.least_memory_mb(),
                                 .weight = options_.placement.weight,
                                 .max_change_cost = max_change_cost,
                                 .max_steps = kPlanSteps};
  std::map<std::string, const Variants*> present;
  for (const auto& [model, loaded] : registry_.loaded()) {
    if (!loaded.variants.empty()) present[model] = &loaded.variants;
  }
  for (const auto& [model, variants] : without_room) present[model] = &variants;
  std::map<std::string, plan::PlacementModel> units;
  const auto add = [&](const std::string& name, const std::string& model) {
    plan::PlacementModel& unit = units[name];
    // One whose members are apart, or not all placed, is placed anew.
    const std::optional<uint32_t> place = place_of(model);
    unit.current = unit.name.empty() || unit.current == place ? place : std::nullopt;
    unit.name = name;
    add_memory(*present.at(model), unit);
    const auto rate = rates_rps_.find(model);
    if (rate != rates_rps_.end()) unit.rate_rps += rate->second;
  };
  for (const auto& [model, _] : present) add(units_.unit_of(model), model);
  // Where no worker holds all members, each is still of use by itself.
  for (const auto& [model, _] : present) {
    const std::string& name = units_.unit_of(model);
    if (name == model || units[name].static_mb + units[name].dynamic_mb <= problem.memory_mb) {
      continue;
    }
    add(model, model);
  }
  for (auto& [name, unit] : units) {
    const bool split =
        !units_.members(name).empty() && unit.static_mb + unit.dynamic_mb > problem.memory_mb;
    if (!split) problem.models.push_back(std::move(unit));
  }
  return problem;
}

std::optional<uint32_t> RealEngine::place_of(const std::string& model) const {
  const auto it = registry_.loaded().find(model);
  if (it == registry_.loaded().end() || it->second.variants.empty()) return std::nullopt;
  return it->second.subcluster;
}

std::vector<std::string> RealEngine::models_in(const std::string& unit) const {
  if (units_.members(unit).empty()) return {unit};
  std::vector<std::string> models = units_.members(unit);
  std::erase_if(models, [this](const std::string& model) {
    return !place_of(model) && !without_room_.contains(model);
  });
  return models;
}

absl::Status RealEngine::divide_pool(const std::map<std::string, Variants>& models) {
  uint32_t subclusters = 1;
  if (memory_is_limited()) {
    subclusters = options_.placement.subclusters.value_or(
        plan::fewest_subclusters(problem(kAnyChange, models), options_.workers.count()));
  }
  ASSIGN_OR_RETURN(pool_, Pool::make(options_, executors_, subclusters,
                                     [this](std::shared_ptr<Job> job) { adopt(std::move(job)); }));
  replicas_ =
      std::make_unique<Replicas>(options_, executors_, pool_->ids(),
                                 [this](std::shared_ptr<Job> job) { adopt(std::move(job)); });
  if (subclusters > 1) {
    spdlog::info("{} workers of {} MiB are divided into {} sub-clusters", options_.workers.count(),
                 options_.workers.least_memory_mb(), subclusters);
  }
  if (memory_is_limited()) {
    without_room_ = models;
    place("start", kAnyChange, models);
    return absl::OkStatus();
  }
  for (const auto& [model, variants] : models) {
    const absl::Status placed = replace(model, {variants, 0}, false, Duration());
    (void)(placed.ok() ? ready(model) : unavailable(model, placed));
  }
  return absl::OkStatus();
}

// Into the sub-cluster of the old version, or any other that has room.
absl::Status RealEngine::replace_version(const std::string& model, const Variants& variants) {
  const uint32_t home = registry_.loaded().at(model).subcluster;
  absl::Status placed = replace(model, {variants, home}, false, kPatience);
  for (uint32_t i = 0; i < pool_->size() && no_room(placed); ++i) {
    if (i != home && units_.unit_of(model) == model)
      placed = replace(model, {variants, i}, false, kPatience);
  }
  if (!no_room(placed)) return placed;
  return unplaced("no room for the new version beside the old one; unload the model first");
}

absl::Status RealEngine::settle_in(const std::string& model, const Variants& variants) {
  const auto known = registry_.loaded().find(model);
  const bool is_served = known != registry_.loaded().end() && !known->second.variants.empty();
  if (is_served || !memory_is_limited()) {
    const absl::Status placed = is_served ? replace_version(model, variants)
                                          : replace(model, {variants, 0}, false, Duration());
    return placed.ok() ? ready(model) : unavailable(model, placed);
  }
  without_room_[model] = variants;
  std::map<std::string, Variants> waiting;
  for (const std::string& member : models_in(units_.unit_of(model))) {
    if (!place_of(member)) waiting[member] = without_room_.at(member);
  }
  place("load", options_.placement.max_change_cost, waiting);
  const std::lock_guard lock(mutex_);
  const auto trouble = troubled_.find(model);
  return trouble == troubled_.end() ? absl::OkStatus() : unplaced(trouble->second.reason);
}

Duration RealEngine::place(const char* cause, double max_change_cost,
                           const std::map<std::string, Variants>& without_room) {
  const Time start = now();
  const plan::EpochPlan plan =
      plan::plan_epoch(problem(max_change_cost, without_room), options_.placement.min_gain);
  const Duration planned = now() - start;
  for (const auto& [unit, reason] : plan.left_out) {
    for (const std::string& model : models_in(unit)) {
      if (!place_of(model)) (void)unavailable(model, unplaced(reason));
    }
  }
  std::vector<PlacementChange> changes;
  if (!plan.steps.empty() && plan.steps.back().answer.feasible && !plan.stay) {
    changes = changes_of(plan.steps.back(), without_room);
    carry_out(changes, without_room);
  }
  log_.add(cause, start, planned, plan, std::move(changes));
  return planned;
}

std::vector<PlacementChange> RealEngine::changes_of(
    const plan::EpochPlan::Step& step, const std::map<std::string, Variants>& without_room) const {
  std::vector<PlacementChange> changes;
  for (size_t i = 0; i < step.problem.models.size(); ++i) {
    const uint32_t to = step.answer.assignment[i];
    for (const std::string& model : models_in(step.problem.models[i].name)) {
      const std::optional<uint32_t> from = place_of(model);
      if (!from && !without_room.contains(model)) continue;
      if (from != to) changes.push_back({.model = model, .from = from, .to = to});
    }
  }
  return changes;
}

// What leaves one sub-cluster makes room for what comes to it, so the others are tried
// again after each that went. A ring of models without room for one more stays.
void RealEngine::carry_out(std::vector<PlacementChange>& changes,
                           const std::map<std::string, Variants>& without_room) {
  for (bool progress = true; progress;) {
    progress = false;
    for (PlacementChange& change : changes) {
      if (change.result != PlacementChange::Result::kPostponed) continue;
      change_place(change, change.from ? registry_.loaded().at(change.model).variants
                                       : without_room.at(change.model));
      progress = progress || change.result == PlacementChange::Result::kDone;
    }
  }
  for (const PlacementChange& change : changes) {
    if (change.result == PlacementChange::Result::kPostponed) {
      spdlog::info("model '{}' does not move to sub-cluster {} yet: {}", change.model, change.to,
                   change.reason);
      if (!change.from) (void)unavailable(change.model, unplaced(change.reason));
    }
  }
}

void RealEngine::change_place(PlacementChange& change, const Variants& variants) {
  const absl::Status done = replace(change.model, {variants, change.to}, false, kPatience);
  change.reason = message(done);
  if (no_room(done)) return;
  change.result = done.ok() ? PlacementChange::Result::kDone : PlacementChange::Result::kFailed;
  if (!change.from) {
    const std::string model = change.model;
    without_room_.erase(model);
    (void)(done.ok() ? ready(model) : unavailable(model, done));
  } else if (done.ok()) {
    spdlog::info("model '{}' moved from sub-cluster {} to {}", change.model, *change.from,
                 change.to);
  } else {
    spdlog::error("model '{}' cannot move to sub-cluster {}: {}", change.model, change.to,
                  change.reason);
  }
}

void RealEngine::measure_rates() {
  std::map<std::string, uint64_t> demand;
  {
    const std::lock_guard lock(mutex_);
    demand = registry_.demand();
  }
  const Time end = now();
  const double seconds = std::max((end - epoch_start_).seconds(), 1e-3);
  rates_rps_.clear();
  for (const auto& [model, count] : demand) {
    rates_rps_[model] = static_cast<double>(count - demand_[model]) / seconds;
  }
  demand_ = std::move(demand);
  epoch_start_ = end;
}

void RealEngine::end_epoch() {
  const std::lock_guard lock(changing_);
  if (!memory_is_limited()) return;
  const Time start = now();
  measure_rates();
  const std::map<std::string, Variants> without_room = without_room_;  // which changes under way
  const Duration planned = place("epoch", options_.placement.max_change_cost, without_room);
  const plan::PlacementProblem after = problem(kAnyChange, {});
  std::vector<uint32_t> assignment;
  for (const plan::PlacementModel& model : after.models)
    assignment.push_back(model.current.value_or(0));
  log_.epoch_ended(now() - start, planned, plan::evaluate(after, std::move(assignment)));
}

}  // namespace fermata::engine
