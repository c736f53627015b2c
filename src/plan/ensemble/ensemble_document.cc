#include "plan/ensemble/ensemble_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "plan/document_parts.h"
#include "plan/ensemble/pool_document.h"

namespace fermata::plan {
namespace {

constexpr double kFarthestFromNowMs = 1e12;  // from the decision
constexpr double kLeastDelta = 1e-9;

std::vector<std::string> model_names(const EnsembleProblem& problem) {
  std::vector<std::string> names;
  for (const BaseModel& model : problem.models) names.push_back(model.name);
  return names;
}

class TaskReader {
 public:
  EnsembleTask read(Reader root, ObjectReader& fields, EnsemblePolicy policy);

 private:
  void read_models(Reader list);
  void read_queries(Reader list);
  EnsembleQuery read_query(Reader value, Names& taken);
  void read_utility(Reader map, EnsembleQuery& query);
  bool asked_for(Reader field, std::initializer_list<EnsemblePolicy> policies) const;

  EnsembleTask task_;
  absl::flat_hash_map<std::string, Subset> subsets_;
};

EnsembleTask TaskReader::read(Reader root, ObjectReader& fields, EnsemblePolicy policy) {
  task_.policy = policy;
  task_.problem.delta = fields["delta"].between(kLeastDelta, 1, task_.problem.delta);
  task_.problem.max_steps = static_cast<uint64_t>(
      fields["max_steps"].integer(1, kMostSteps, EnsembleProblem::kDefaultSteps));
  read_models(fields["models"]);
  const Reader queries = fields["queries"];
  if (!root.failed()) read_queries(queries);
  return std::move(task_);
}

void TaskReader::read_models(Reader list) {
  Names taken;
  auto& models = task_.problem.models;
  const auto values = list.list(1);
  if (values.size() > EnsembleProblem::kMostModels) {
    return list.fail(fmt::format("at most {}", EnsembleProblem::kMostModels));
  }
  for (const Reader value : values) {
    ObjectReader fields = value.object();
    const Reader name = fields["name"];
    BaseModel& model = models.emplace_back();
    model.name = read_own_name(name, taken);
    if (model.name.find('+') != std::string::npos) name.fail("a name without +, which joins names");
    model.latency = Duration::from_millis(fields["latency_ms"].between(0, kLongestMs));
    model.busy = Duration::from_millis(fields["busy_ms"].between(0, kLongestMs, 0.0));
    model.worker = fields["worker"].string(std::string());
  }
  const std::vector<std::string> names = model_names(task_.problem);
  for (Subset s = 1; s < Subset{1} << models.size(); ++s) {
    subsets_.emplace(estimate::name(s, names), s);
  }
}

void TaskReader::read_queries(Reader list) {
  Names taken;
  const auto values = list.list();
  if (values.size() > EnsembleProblem::kMostQueries) {
    list.fail(fmt::format("at most {}", EnsembleProblem::kMostQueries));
  }
  for (const Reader value : values) {
    if (list.failed()) return;
    task_.problem.queries.push_back(read_query(value, taken));
  }
}

// Whether to read a field of which these policies need to know.
bool TaskReader::asked_for(Reader field, std::initializer_list<EnsemblePolicy> policies) const {
  for (const EnsemblePolicy policy : policies) {
    if (field.present() || task_.policy != policy) continue;
    field.fail(fmt::format("a number, since {} goes by it",
                           ensemble_policy_names()[static_cast<size_t>(policy)]));
  }
  return field.present();
}

EnsembleQuery TaskReader::read_query(Reader value, Names& taken) {
  ObjectReader fields = value.object();
  EnsembleQuery query;
  query.id = read_own_name(fields["id"], taken);
  const Reader deadline = fields["deadline_ms"], arrival = fields["arrival_ms"],
               difficulty = fields["difficulty"];
  if (!deadline.is_null()) {
    query.deadline = Duration::from_millis(deadline.between(0, kFarthestFromNowMs));
  }
  if (asked_for(arrival, {EnsemblePolicy::kGreedyFifo, EnsemblePolicy::kOriginal})) {
    query.arrival = Duration::from_millis(arrival.between(-kFarthestFromNowMs, kFarthestFromNowMs));
  }
  if (asked_for(difficulty, {EnsemblePolicy::kGreedySjf})) query.difficulty = difficulty.number();
  read_utility(fields["utility"], query);
  return query;
}

void TaskReader::read_utility(Reader map, EnsembleQuery& query) {
  query.utility.assign(size_t{1} << task_.problem.models.size(), 0.0);
  for (const auto& [name, value] : map.map()) {
    const auto subset = subsets_.find(name);
    if (subset == subsets_.end()) {
      return value.fail(
          fmt::format("names of models in their order, joined by +, as its name, not '{}'", name));
    }
    query.utility[subset->second] = value.between(0, 1);
  }
}

// Divided, not multiplied by an inexact 1e-6: it reads back to the same nanosecond.
Json write_query(const std::vector<std::string>& models, const EnsembleQuery& query) {
  Json out = {{"id", query.id}, {"deadline_ms", nullptr}};
  if (!query.deadline.is_infinite()) {
    out["deadline_ms"] = millis(std::max(query.deadline, Duration()));
  }
  out["arrival_ms"] = millis(query.arrival);
  out["difficulty"] = query.difficulty;
  Json& utility = out["utility"] = Json::object();
  for (Subset s = 1; s < query.utility.size(); ++s) {
    if (query.utility[s] > 0) utility[estimate::name(s, models)] = query.utility[s];
  }
  return out;
}

}  // namespace

EnsembleTask read_ensemble_task(Reader root) {
  ObjectReader fields = root.object();
  const auto names = ensemble_policy_names();
  const size_t policy = fields["policy"].choice({names.begin(), names.end()}, 0);
  return TaskReader().read(root, fields, static_cast<EnsemblePolicy>(policy));
}

std::variant<EnsembleTask, PoolProblem> read_any_ensemble_task(Reader root) {
  ObjectReader fields = root.object();
  const auto published = ensemble_policy_names();
  std::vector<std::string_view> names(published.begin(), published.end());
  names.push_back("fermata");
  const size_t policy = fields["policy"].choice(names, 0);
  if (policy == published.size()) return read_pool_problem(root, fields);
  return TaskReader().read(root, fields, static_cast<EnsemblePolicy>(policy));
}

Json to_document(const EnsembleTask& task) {
  const EnsembleProblem& problem = task.problem;
  Json out = {{"models", Json::array()}, {"queries", Json::array()}};
  for (const BaseModel& m : problem.models) {
    out["models"].push_back(
        {{"name", m.name}, {"latency_ms", millis(m.latency)}, {"busy_ms", millis(m.busy)}});
    if (!m.worker.empty()) out["models"].back()["worker"] = m.worker;
  }
  const std::vector<std::string> models = model_names(problem);
  for (const auto& q : problem.queries) out["queries"].push_back(write_query(models, q));
  out["delta"] = problem.delta;
  out["max_steps"] = problem.max_steps;
  out["policy"] = ensemble_policy_names()[static_cast<size_t>(task.policy)];
  return out;
}

Json write_ensemble_plan(const EnsembleTask& task, const EnsemblePlan& plan) {
  const EnsembleProblem& problem = task.problem;
  Json out = {{"utility", plan.utility}, {"plan", Json::array()}, {"unserved", Json::array()}};
  for (const EnsemblePlan::Served& served : plan.plan) {
    Json models = Json::array();
    for (size_t k = 0; k < problem.models.size(); ++k) {
      if (served.subset >> k & 1) models.push_back(problem.models[k].name);
    }
    out["plan"].push_back({{"id", problem.queries[served.query].id},
                           {"models", std::move(models)},
                           {"finish_ms", millis(served.finish)}});
  }
  for (const uint32_t q : plan.unserved) out["unserved"].push_back(problem.queries[q].id);
  if (plan.gap == 0) return out;
  out["exact"] = false;
  out["gap"] = plan.gap;
  return out;
}

}  // namespace fermata::plan
