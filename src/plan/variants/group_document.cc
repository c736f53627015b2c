#include "plan/variants/group_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "plan/document_parts.h"

namespace fermata::plan {
namespace {

constexpr double kFarthestMs = 2e12;  // from the clock's origin: 1970 is not too far
constexpr double kMostMemoryMb = 1e9;
constexpr double kMostCounts = 1e12;  // of a class, in a prior or in evidence
constexpr double kMostRate = 1e9;
constexpr int64_t kMostTried = 1000;
constexpr size_t kMostWorkers = 4096;
constexpr double kMostPrice = 1e9;
constexpr size_t kMostRequests = 20'000;

Time read_time(Reader value) {
  return Time() + Duration::from_millis(value.between(-kFarthestMs, kFarthestMs));
}

int64_t read_bytes(Reader value, std::optional<double> fallback = {}) {
  return std::llround(value.between(0, kMostMemoryMb, fallback) * 1048576.0);
}

// Reads top-down and remembers what was named by its index.
class ProblemReader {
 public:
  GroupProblem read(Reader root);

 private:
  void read_policy(ObjectReader& fields);
  void read_workers(Reader list);
  void read_other_models(Reader list);
  void read_services(Reader list);
  GroupService read_service(Reader value);
  void read_expected(Reader value, const GroupService& service);
  void read_prior(Reader list, GroupService& service);
  GroupVariant read_variant(Reader value, GroupService& service, Names& taken);
  void read_recall(Reader list, GroupService& service, GroupVariant& variant);
  uint32_t find_model(Reader name, GroupModel model);
  void read_loaded(Reader list, GroupWorker& worker);
  void read_requests(Reader list);
  GroupRequest read_request(Reader value, Names& taken);
  void read_evidence(Reader list, GroupRequest& request);

  GroupProblem problem_;
  std::vector<Reader> loaded_;  // by worker, to be read when the models are known
  absl::flat_hash_map<std::string, uint32_t> models_, services_;
};

GroupProblem ProblemReader::read(Reader root) {
  ObjectReader fields = root.object();
  problem_.now = read_time(fields["now_ms"]);
  read_policy(fields);
  read_workers(fields["workers"]);
  read_services(fields["applications"]);
  if (!problem_.expected.empty()) problem_.expected.resize(problem_.services.size());
  read_other_models(fields["other_models"]);
  for (size_t w = 0; w < loaded_.size(); ++w) read_loaded(loaded_[w], problem_.workers[w]);
  read_requests(fields["requests"]);
  return std::move(problem_);
}

void ProblemReader::read_policy(ObjectReader& fields) {
  const auto names = group_policy_names();
  problem_.policy =
      static_cast<GroupPolicy>(fields["policy"].choice({names.begin(), names.end()}, 0));
  problem_.tau = static_cast<uint32_t>(fields["tau"].integer(0, 1'000'000, problem_.tau));
  problem_.max_group = static_cast<uint32_t>(
      fields["max_group"].integer(1, int64_t{UINT32_MAX}, problem_.max_group));
  problem_.max_steps = static_cast<uint64_t>(
      fields["max_steps"].integer(1, kMostSteps, GroupProblem::kDefaultSteps));
  problem_.others = fields["others"].between(0, kMostWorkers, 0.0);
  problem_.others_price = fields["others_price"].between(0, kMostPrice, 0.0);
  problem_.last_price = static_cast<uint32_t>(fields["last_price"].integer(0, kMostTried, 0));
  problem_.last_tried = static_cast<uint32_t>(fields["last_tried"].integer(0, kMostTried, 0));
  if (const Reader v = fields["data_aware"]; v.present()) problem_.data_aware = v.boolean();
  if (const Reader v = fields["short_circuit"]; v.present()) problem_.short_circuit = v.boolean();
}

void ProblemReader::read_workers(Reader list) {
  Names taken;
  auto& types = problem_.worker_types;
  types.clear();
  const auto values = list.list(1);
  if (values.size() > kMostWorkers) list.fail(fmt::format("at most {}", kMostWorkers));
  for (const Reader value : values) {
    if (list.failed()) return;
    ObjectReader fields = value.object();
    GroupWorker& worker = problem_.workers.emplace_back();
    worker.name = read_own_name(fields["name"], taken);
    const std::string type = fields["type"].string("default");
    const auto found = std::find(types.begin(), types.end(), type);
    worker.type = static_cast<uint32_t>(found - types.begin());
    if (found == types.end()) types.push_back(type);
    const Reader free_at = fields["free_at_ms"], memory = fields["memory_mb"];
    worker.free_at = free_at.present() ? read_time(free_at) : problem_.now;
    if (memory.present()) worker.memory_bytes = read_bytes(memory);
    loaded_.push_back(fields["loaded"]);
  }
}

void ProblemReader::read_other_models(Reader list) {
  for (const Reader value : list.optional_list()) {
    if (list.failed()) return;
    ObjectReader fields = value.object();
    const Reader name = fields["name"];
    GroupModel model = {.name = name.string(), .memory_bytes = read_bytes(fields["memory_mb"])};
    if (models_.contains(model.name)) name.fail("a name of its own");
    find_model(name, std::move(model));
  }
}

void ProblemReader::read_services(Reader list) {
  for (const Reader value : list.list(1)) {
    if (list.failed()) return;
    problem_.services.push_back(read_service(value));
  }
}

GroupService ProblemReader::read_service(Reader value) {
  ObjectReader fields = value.object();
  GroupService service;
  const Reader name = fields["name"];
  service.name = name.string();
  const auto index = static_cast<uint32_t>(problem_.services.size());
  if (!services_.emplace(service.name, index).second) name.fail("a name of its own");
  service.penalty = read_penalty(fields["penalty"], PenaltyShape::kSigmoid);
  if (const Reader prior = fields["prior"]; prior.present()) read_prior(prior, service);
  Names taken;
  for (const Reader variant : fields["variants"].list(1)) {
    if (value.failed()) break;
    service.variants.push_back(read_variant(variant, service, taken));
  }
  if (const Reader circuit = fields["short_circuit"]; circuit.present()) {
    ObjectReader parts = circuit.object();
    service.short_circuit = {read_own_name(parts["name"], taken), parts["accuracy"].between(0, 1)};
  }
  read_expected(fields["expected"], service);
  return service;
}

void ProblemReader::read_expected(Reader value, const GroupService& service) {
  if (!value.present()) return;
  problem_.expected.resize(problem_.services.size() + 1);
  ExpectedArrivals& expected = problem_.expected.back();
  ObjectReader fields = value.object();
  expected.rate_rps = fields["rate_rps"].between(0, kMostRate);
  expected.waiting = fields["waiting"].between(0, kMostCounts, 0.0);
  const Reader slo = fields["slo_ms"], accuracies = fields["accuracies"];
  expected.slo =
      slo.present() ? Duration::from_millis(slo.between(0, kFarthestMs)) : Duration::infinite();
  for (const Reader accuracy : accuracies.optional_list()) {
    expected.accuracies.push_back(accuracy.between(0, 1));
  }
  const size_t variants = std::max<size_t>(service.variants.size(), 1);
  if (expected.accuracies.size() % variants != 0) {
    accuracies.fail(
        fmt::format("one for each of {} variants, any number of times", service.variants.size()));
  }
}

void ProblemReader::read_prior(Reader list, GroupService& service) {
  for (const Reader weight : list.list(1)) {
    service.prior.push_back(weight.positive());
    if (service.prior.back() > kMostCounts) weight.fail(fmt::format("at most {}", kMostCounts));
  }
}

GroupVariant ProblemReader::read_variant(Reader value, GroupService& service, Names& taken) {
  ObjectReader fields = value.object();
  GroupVariant variant;
  const Reader name = fields["name"];
  GroupModel model = {.name = read_own_name(name, taken)};
  model.load = Duration::from_millis(fields["load_ms"].between(0, kLongestMs, 0.0));
  model.memory_bytes = read_bytes(fields["memory_mb"], 0.0);
  variant.model = find_model(name, std::move(model));
  variant.accuracy = fields["accuracy"].between(0, 1);
  read_recall(fields["recall"], service, variant);
  variant.latency = read_tables(fields["latency_ms"], fields["max_batch"], problem_.worker_types);
  return variant;
}

// Without a prior the first recalls say how many classes there are, and every class
// weighs 0.5: Jeffreys' prior, the uninformative one of section 6.3.3.
void ProblemReader::read_recall(Reader list, GroupService& service, GroupVariant& variant) {
  const bool first = service.variants.empty() && service.prior.empty();
  if (!list.present() && service.prior.empty()) return;
  for (const Reader recall : list.list(1)) variant.recall.push_back(recall.between(0, 1));
  if (first) service.prior.assign(variant.recall.size(), 0.5);
  if (variant.recall.size() != service.prior.size()) {
    list.fail(service.prior.empty()
                  ? "no recall, as with the variants before it"
                  : fmt::format("one for each of {} classes", service.prior.size()));
  }
}

// One model may be a variant of several services.
uint32_t ProblemReader::find_model(Reader name, GroupModel model) {
  const auto index = static_cast<uint32_t>(problem_.models.size());
  const auto [found, is_new] = models_.emplace(model.name, index);
  if (is_new) {
    problem_.models.push_back(std::move(model));
    return index;
  }
  const GroupModel& other = problem_.models[found->second];
  if (other.load != model.load || other.memory_bytes != model.memory_bytes) {
    name.fail("a name of its own, or the load_ms and memory_mb of the other variant of this name");
  }
  return found->second;
}

void ProblemReader::read_loaded(Reader list, GroupWorker& worker) {
  for (const Reader value : list.optional_list()) {
    const auto model = models_.find(value.string());
    if (list.failed()) return;
    if (model == models_.end()) return value.fail("a variant of the applications");
    if (problem_.models[model->second].memory_bytes > worker.memory_bytes) {
      return value.fail("a variant that fits the worker's memory_mb");
    }
    auto& loaded = worker.loaded;
    if (std::find(loaded.begin(), loaded.end(), model->second) != loaded.end()) {
      return value.fail("each variant once");
    }
    loaded.push_back(model->second);
  }
}

void ProblemReader::read_requests(Reader list) {
  Names taken;
  const auto values = list.list();
  if (values.size() > kMostRequests) list.fail(fmt::format("at most {}", kMostRequests));
  for (const Reader value : values) {
    if (list.failed()) return;
    problem_.requests.push_back(read_request(value, taken));
  }
}

GroupRequest ProblemReader::read_request(Reader value, Names& taken) {
  ObjectReader fields = value.object();
  GroupRequest request;
  request.id = read_own_name(fields["id"], taken);
  const Reader name = fields["application"], deadline = fields["deadline_ms"];
  request.arrival = read_time(fields["arrival_ms"]);
  request.deadline = read_time(deadline);
  const Reader evidence = fields["evidence"];
  const auto service = services_.find(name.string());
  if (value.failed()) return request;
  if (service == services_.end()) {
    name.fail("the name of an application");
    return request;
  }
  request.service = service->second;
  if (request.deadline <= request.arrival) deadline.fail("a deadline after arrival_ms");
  if (evidence.present()) read_evidence(evidence, request);
  return request;
}

void ProblemReader::read_evidence(Reader list, GroupRequest& request) {
  const GroupService& service = problem_.services[request.service];
  const auto counts = list.list();
  request.evidence = static_cast<uint32_t>(problem_.evidence.size());
  if (service.prior.empty()) {
    list.fail(fmt::format("none, since '{}' has no prior and no recalls", service.name));
  } else if (counts.size() != service.prior.size()) {
    list.fail(fmt::format("one for each of {} classes", service.prior.size()));
  }
  for (const Reader count : counts) problem_.evidence.push_back(count.between(0, kMostCounts));
}

}  // namespace

Penalty read_penalty(Reader value, PenaltyShape absent) {
  if (value.is_object()) {
    ObjectReader fields = value.object();
    return {PenaltyShape::kConstant, fields["constant"].between(0, 1)};
  }
  return {static_cast<PenaltyShape>(
      value.choice({"step", "linear", "sigmoid", "none"}, static_cast<size_t>(absent)))};
}

GroupProblem read_group_problem(Reader root) { return ProblemReader().read(root); }

}  // namespace fermata::plan
