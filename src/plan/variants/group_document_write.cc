#include <nlohmann/json.hpp>

#include "base/status.h"
#include "plan/document_parts.h"
#include "plan/variants/group_document.h"

namespace fermata::plan {
namespace {

// Divided, not multiplied by an inexact 1e-6: 14 ms are 14.0 and read back to the same nanosecond.
double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

Json write_penalty(const Penalty& penalty) {
  switch (penalty.shape) {
    case PenaltyShape::kStep:
      return "step";
    case PenaltyShape::kLinear:
      return "linear";
    case PenaltyShape::kSigmoid:
      return "sigmoid";
    case PenaltyShape::kNone:
      return "none";
    default:
      return {{"constant", penalty.constant}};
  }
}

// By the types that workers have, as a document knows no other.
std::vector<bool> used_types(const GroupProblem& problem) {
  std::vector<bool> used(problem.worker_types.size());
  for (const GroupWorker& w : problem.workers) used[w.type] = true;
  return used;
}

Json write_expected(const ExpectedArrivals& expected) {
  Json out = {{"rate_rps", expected.rate_rps}, {"waiting", expected.waiting}};
  if (!expected.slo.is_infinite()) out["slo_ms"] = millis(expected.slo);
  if (!expected.accuracies.empty()) out["accuracies"] = expected.accuracies;
  return out;
}

Json write_service(const GroupProblem& problem, const GroupService& service) {
  Json out = {{"name", service.name}, {"penalty", write_penalty(service.penalty)}};
  if (!service.prior.empty()) out["prior"] = service.prior;
  for (const GroupVariant& v : service.variants) {
    const GroupModel& model = problem.models[v.model];
    Json variant = {{"name", model.name},
                    {"load_ms", millis(model.load)},
                    {"memory_mb", mebibytes(model.memory_bytes)}};
    write_tables(v.latency, problem.worker_types, used_types(problem), variant);
    if (!v.recall.empty()) variant["recall"] = v.recall;
    variant["accuracy"] = v.accuracy;
    out["variants"].push_back(std::move(variant));
  }
  if (const auto& circuit = service.short_circuit) {
    out["short_circuit"] = {{"name", circuit->name}, {"accuracy", circuit->accuracy}};
  }
  const auto index = static_cast<size_t>(&service - problem.services.data());
  if (!problem.expected.empty()) out["expected"] = write_expected(problem.expected[index]);
  return out;
}

Json write_worker(const GroupProblem& problem, const GroupWorker& worker) {
  Json out = {{"name", worker.name},
              {"type", problem.worker_types[worker.type]},
              {"free_at_ms", millis(worker.free_at - problem.now)}};
  if (worker.memory_bytes != GroupWorker().memory_bytes) {
    out["memory_mb"] = mebibytes(worker.memory_bytes);
  }
  out["loaded"] = Json::array();
  for (const uint32_t model : worker.loaded) out["loaded"].push_back(problem.models[model].name);
  return out;
}

Json write_request(const GroupProblem& problem, const GroupRequest& request) {
  const GroupService& service = problem.services[request.service];
  Json out = {{"id", request.id},
              {"application", service.name},
              {"arrival_ms", millis(request.arrival - problem.now)},
              {"deadline_ms", millis(request.deadline - problem.now)}};
  if (request.evidence) {
    out["evidence"] = std::span(problem.evidence).subspan(*request.evidence, service.prior.size());
  }
  return out;
}

// Models that workers may hold though they are no variant of these services.
Json write_other_models(const GroupProblem& problem) {
  std::vector<bool> variant(problem.models.size());
  for (const GroupService& a : problem.services) {
    for (const GroupVariant& v : a.variants) variant[v.model] = true;
  }
  Json out = Json::array();
  for (size_t m = 0; m < variant.size(); ++m) {
    const GroupModel& model = problem.models[m];
    if (variant[m] || model.name.empty()) continue;  // without a name it has gone
    out.push_back({{"name", model.name}, {"memory_mb", mebibytes(model.memory_bytes)}});
  }
  return out;
}

Json write_infeasible(const GroupProblem& problem, const GroupSchedule& schedule) {
  Json out = {{"feasible", false}, {"binding", "memory_mb"}};
  out["reason"] = fmt::format("no variant of '{}' fits the memory of any worker",
                              problem.services[schedule.unserved].name);
  return out;
}

}  // namespace

Json to_document(const GroupProblem& problem) {
  Json out = {{"now_ms", 0.0}, {"workers", Json::array()}, {"applications", Json::array()}};
  for (const auto& w : problem.workers) out["workers"].push_back(write_worker(problem, w));
  for (const auto& a : problem.services) {
    out["applications"].push_back(write_service(problem, a));
  }
  if (Json others = write_other_models(problem); !others.empty()) out["other_models"] = others;
  out["requests"] = Json::array();
  for (const auto& r : problem.requests) out["requests"].push_back(write_request(problem, r));
  out["policy"] = group_policy_names()[static_cast<size_t>(problem.policy)];
  out["tau"] = problem.tau;
  if (problem.max_group != GroupProblem().max_group) out["max_group"] = problem.max_group;
  if (problem.data_aware) out["data_aware"] = *problem.data_aware;
  if (problem.short_circuit) out["short_circuit"] = *problem.short_circuit;
  out["max_steps"] = problem.max_steps;
  if (problem.expected.empty()) return out;
  out["others"] = problem.others;
  out["others_price"] = problem.others_price;
  out["last_price"] = problem.last_price;
  out["last_tried"] = problem.last_tried;
  return out;
}

Json write_group_schedule(const GroupProblem& problem, const GroupSchedule& schedule, Time origin) {
  if (!schedule.feasible) return write_infeasible(problem, schedule);
  Json out = {{"utility", schedule.utility}, {"schedule", Json::array()}};
  const auto ids = [&](std::span<const uint32_t> requests) {
    Json list = Json::array();
    for (const uint32_t r : requests) list.push_back(problem.requests[r].id);
    return list;
  };
  for (const GroupBatch& b : schedule.batches) {
    const GroupVariant& variant = problem.services[b.service].variants[b.variant];
    out["schedule"].push_back({{"worker", problem.workers[b.worker].name},
                               {"variant", problem.models[variant.model].name},
                               {"requests", ids(schedule.requests_of(b))},
                               {"start_ms", millis(b.start - origin)},
                               {"finish_ms", millis(b.finish - origin)}});
  }
  out["short_circuited"] = ids(schedule.short_circuited);
  Json accuracies = Json::object();
  for (size_t r = 0; r < problem.requests.size(); ++r) {
    accuracies.get_ref<Json::object_t&>().push_back(
        {problem.requests[r].id, schedule.expected_accuracy[r]});
  }
  out["expected_accuracy"] = std::move(accuracies);
  out["exact"] = schedule.exact;
  return out;
}

}  // namespace fermata::plan
