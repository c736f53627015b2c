#include "plan/ensemble/pool_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "plan/document_parts.h"

namespace fermata::plan {
namespace {

constexpr double kFarthestInPoolMs = 1e12;  // from the decision
constexpr double kMostCoArrivals = 64, kDearestInPool = 1e9, kFastestInPool = 1e9;
constexpr size_t kMostPoolWorkers = 4096, kMostPoolModels = 512, kMostPoolEnsembles = 64;
constexpr size_t kMostPoolQueries = 256, kMostRows = 256;
constexpr int64_t kMostPlays = 1000;

using Indices = absl::flat_hash_map<std::string, uint32_t>;

std::vector<std::string> names_of(const PoolProblem& problem, const PoolProblem::Ensemble& of) {
  std::vector<std::string> names;
  for (const uint32_t model : of.models) names.push_back(problem.models[model].name);
  return names;
}

// Reads top-down and remembers what was named by its index.
class PoolReader {
 public:
  PoolProblem read(Reader root, ObjectReader& fields);

 private:
  void read_workers(Reader list, Reader granted);
  void read_models(Reader list);
  void read_ensemble(Reader value);
  void read_utility(Reader list, PoolProblem::Ensemble& ensemble);
  void read_query(Reader value, Names& taken);
  // Of these models, by name.
  estimate::Subset read_subset(Reader value, const Indices& subsets);

  PoolProblem problem_;
  Indices models_, ensembles_;
  std::vector<Indices> subsets_;  // by ensemble
};

std::vector<Reader> limited(Reader list, size_t most) {
  std::vector<Reader> values = list.list(1);
  if (values.size() > most) list.fail(fmt::format("at most {}", most));
  return values;
}

Time read_time_from_now(Reader value) {
  return Time() + Duration::from_millis(value.between(-kFarthestInPoolMs, kFarthestInPoolMs));
}

uint32_t find(Reader value, const Indices& known, std::string_view expected) {
  const auto found = known.find(value.string());
  if (found != known.end()) return found->second;
  value.fail(expected);
  return 0;
}

PoolProblem PoolReader::read(Reader root, ObjectReader& fields) {
  read_workers(fields["workers"], fields["worker"]);
  read_models(fields["models"]);
  const Reader ensembles = fields["ensembles"], queries = fields["queries"];
  problem_.last_price = static_cast<uint32_t>(fields["last_price"].integer(0, kMostPlays, 0));
  problem_.last_style = static_cast<uint32_t>(fields["last_style"].integer(0, kMostPlays, 0));
  problem_.last_tried = static_cast<uint32_t>(fields["last_tried"].integer(0, kMostPlays, 0));
  problem_.try_all = fields["try_all"].boolean(true);
  problem_.others_price = fields["others_price"].between(0, kDearestInPool, 0.0);
  for (const Reader value : limited(ensembles, kMostPoolEnsembles)) {
    if (!root.failed()) read_ensemble(value);
  }
  Names taken;
  for (const Reader value : limited(queries, kMostPoolQueries)) {
    if (!root.failed()) read_query(value, taken);
  }
  return std::move(problem_);
}

void PoolReader::read_workers(Reader list, Reader granted) {
  Indices workers;
  Names taken;
  auto& types = problem_.worker_types;
  types.clear();
  for (const Reader value : limited(list, kMostPoolWorkers)) {
    if (list.failed()) return;
    ObjectReader fields = value.object();
    const auto index = static_cast<uint32_t>(problem_.workers.size());
    PoolProblem::Worker& worker = problem_.workers.emplace_back();
    worker.name = read_own_name(fields["name"], taken);
    workers.emplace(worker.name, index);
    const std::string type = fields["type"].string("default");
    const auto found = std::find(types.begin(), types.end(), type);
    worker.type = static_cast<uint32_t>(found - types.begin());
    if (found == types.end()) types.push_back(type);
    if (const Reader free = fields["free_at_ms"]; free.present()) {
      worker.free_at = read_time_from_now(free);
    }
  }
  problem_.worker = find(granted, workers, "the name of a worker");
}

void PoolReader::read_models(Reader list) {
  for (const Reader value : limited(list, kMostPoolModels)) {
    if (list.failed()) return;
    ObjectReader fields = value.object();
    const Reader name = fields["name"];
    const auto index = static_cast<uint32_t>(problem_.models.size());
    PoolProblem::Model& model = problem_.models.emplace_back();
    model.name = name.string();
    if (model.name.find('+') != std::string::npos) name.fail("a name without +, which joins names");
    if (!models_.emplace(model.name, index).second) name.fail("a name of its own");
    auto tables = read_tables(fields["latency_ms"], fields["max_batch"], problem_.worker_types);
    if (!list.failed()) model.latency = LatencyByType(std::move(tables));
  }
}

void PoolReader::read_ensemble(Reader value) {
  ObjectReader fields = value.object();
  const Reader name = fields["name"], models = fields["models"], expected = fields["expected"];
  PoolProblem::Ensemble ensemble = {.name = name.string()};
  const auto index = static_cast<uint32_t>(problem_.ensembles.size());
  if (!ensembles_.emplace(ensemble.name, index).second) name.fail("a name of its own");
  for (const Reader model : limited(models, estimate::kMostBaseModels)) {
    ensemble.models.push_back(find(model, models_, "the name of a model"));
    const auto before = ensemble.models.end() - 1;
    if (std::find(ensemble.models.begin(), before, *before) != before)
      model.fail("each model once");
  }
  ensemble.serve_all = fields["mode"].choice({"reject", "serve-all"}, 0) == 1;
  if (expected.present()) {
    ObjectReader parts = expected.object();
    const Reader before = parts["company"];  // as documents had it
    ensemble.co_arrivals =
        (before.present() ? before : parts["co_arrivals"]).between(0, kMostCoArrivals);
    ensemble.rate_rps = parts["rate_rps"].between(0, kFastestInPool, 0.0);
    ensemble.spread = Duration::from_millis(parts["spread_ms"].between(0, kFarthestInPoolMs));
    ensemble.slo = Duration::from_millis(parts["slo_ms"].between(0, kFarthestInPoolMs));
    ensemble.last = read_time_from_now(parts["last_ms"]);
  }
  if (value.failed()) return;
  const std::vector<std::string> names = names_of(problem_, ensemble);
  Indices& subsets = subsets_.emplace_back();
  for (estimate::Subset s = 1; s < estimate::Subset{1} << names.size(); ++s) {
    subsets.emplace(estimate::name(s, names), s);
  }
  read_utility(fields["utility"], ensemble);
  problem_.ensembles.push_back(std::move(ensemble));
}

void PoolReader::read_utility(Reader list, PoolProblem::Ensemble& ensemble) {
  const Indices& subsets = subsets_.back();
  PoolProblem::Utilities rows;
  for (const Reader row : limited(list, kMostRows)) {
    rows.emplace_back(subsets.size() + 1);
    for (const auto& [name, value] : row.map()) {
      const auto subset = subsets.find(name);
      if (subset == subsets.end()) {
        return value.fail(fmt::format(
            "names of models in their order, joined by +, as its name, not '{}'", name));
      }
      rows.back()[subset->second] = value.between(0, 1);
    }
  }
  ensemble.utility = std::make_shared<const PoolProblem::Utilities>(std::move(rows));
}

estimate::Subset PoolReader::read_subset(Reader value, const Indices& subsets) {
  if (!value.present()) return 0;
  return find(value, subsets, "names of the ensemble's models in their order, joined by +");
}

void PoolReader::read_query(Reader value, Names& taken) {
  ObjectReader fields = value.object();
  PoolProblem::Query& query = problem_.queries.emplace_back();
  query.id = read_own_name(fields["id"], taken);
  query.ensemble = find(fields["ensemble"], ensembles_, "the name of an ensemble");
  query.arrival = read_time_from_now(fields["arrival_ms"]);
  const Reader deadline = fields["deadline_ms"], open = fields["open"], row = fields["utility"],
               has = fields["has"];
  query.deadline = deadline.is_null() ? Time::infinite() : read_time_from_now(deadline);
  if (value.failed()) return;
  const auto rows = problem_.ensembles[query.ensemble].utility->size();
  query.row = static_cast<uint32_t>(row.integer(0, static_cast<int64_t>(rows) - 1));
  query.had = read_subset(has, subsets_[query.ensemble]);
  query.open = read_subset(open, subsets_[query.ensemble]);
  if ((query.had & query.open) != 0) open.fail("none of those that it has");
}

Json write_row(const std::vector<double>& row, const std::vector<std::string>& models) {
  Json out = Json::object();
  for (estimate::Subset s = 1; s < row.size(); ++s) {
    if (row[s] > 0) out[estimate::name(s, models)] = row[s];
  }
  return out;
}

Json write_ensemble(const PoolProblem& problem, const PoolProblem::Ensemble& ensemble) {
  const std::vector<std::string> names = names_of(problem, ensemble);
  Json out = {{"name", ensemble.name},
              {"models", names},
              {"mode", ensemble.serve_all ? "serve-all" : "reject"},
              {"utility", Json::array()}};
  for (const auto& row : *ensemble.utility) out["utility"].push_back(write_row(row, names));
  if (ensemble.slo.is_infinite()) return out;
  out["expected"] = {{"co_arrivals", ensemble.co_arrivals},
                     {"rate_rps", ensemble.rate_rps},
                     {"spread_ms", millis(ensemble.spread)},
                     {"slo_ms", millis(ensemble.slo)},
                     {"last_ms", millis(ensemble.last - problem.start)}};
  return out;
}

Json write_pool_query(const PoolProblem& problem, const PoolProblem::Query& query) {
  const PoolProblem::Ensemble& ensemble = problem.ensembles[query.ensemble];
  const std::vector<std::string> names = names_of(problem, ensemble);
  Json out = {{"id", query.id},
              {"ensemble", ensemble.name},
              {"arrival_ms", millis(query.arrival - problem.start)},
              {"deadline_ms", nullptr},
              {"utility", query.row}};
  if (!query.deadline.is_infinite()) out["deadline_ms"] = millis(query.deadline - problem.start);
  if (query.had != 0) out["has"] = estimate::name(query.had, names);
  if (query.open != 0) out["open"] = estimate::name(query.open, names);
  return out;
}

}  // namespace

PoolProblem read_pool_problem(Reader root, ObjectReader& fields) {
  return PoolReader().read(root, fields);
}

Json to_document(const PoolProblem& problem) {
  Json out = {{"policy", "fermata"},        {"worker", problem.workers[problem.worker].name},
              {"workers", Json::array()},   {"models", Json::array()},
              {"ensembles", Json::array()}, {"queries", Json::array()}};
  std::vector<bool> used(problem.worker_types.size());
  for (const PoolProblem::Worker& w : problem.workers) {
    used[w.type] = true;
    // What is past is as good as now.
    const Duration free = std::max(w.free_at - problem.start, Duration());
    out["workers"].push_back(
        {{"name", w.name}, {"type", problem.worker_types[w.type]}, {"free_at_ms", millis(free)}});
  }
  for (const PoolProblem::Model& m : problem.models) {
    Json& model = out["models"].emplace_back(Json{{"name", m.name}});
    write_tables(m.latency.tables(), problem.worker_types, used, model);
  }
  for (const auto& e : problem.ensembles) out["ensembles"].push_back(write_ensemble(problem, e));
  for (const auto& q : problem.queries) out["queries"].push_back(write_pool_query(problem, q));
  out["last_price"] = problem.last_price;
  out["last_style"] = problem.last_style;
  out["last_tried"] = problem.last_tried;
  out["try_all"] = problem.try_all;
  out["others_price"] = problem.others_price;
  return out;
}

Json write_pool_plan(const PoolProblem& problem, const PoolPlan& plan) {
  Json out = {{"utility", std::max(plan.value, 0.0)},
              {"batch", nullptr},
              {"plan", Json::array()},
              {"unserved", Json::array()}};
  if (plan.model && !plan.queries.empty()) {
    Json queries = Json::array();
    for (const uint32_t q : plan.queries) queries.push_back(problem.queries[q].id);
    out["batch"] = {{"worker", problem.workers[problem.worker].name},
                    {"model", problem.models[*plan.model].name},
                    {"queries", std::move(queries)},
                    {"finish_ms", millis(plan.run)}};
  }
  for (const PoolPlan::Planned& each : plan.planned) {
    const PoolProblem::Query& query = problem.queries[each.query];
    const auto names = names_of(problem, problem.ensembles[query.ensemble]);
    if (each.subset == 0) {
      out["unserved"].push_back(query.id);
      continue;
    }
    Json models = Json::array();
    for (size_t k = 0; k < names.size(); ++k) {
      if (each.subset >> k & 1) models.push_back(names[k]);
    }
    out["plan"].push_back(
        {{"id", query.id}, {"models", std::move(models)}, {"finish_ms", millis(each.finish)}});
  }
  return out;
}

}  // namespace fermata::plan
