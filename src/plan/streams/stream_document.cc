#include "plan/streams/stream_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "model/latency_at.h"
#include "model/latency_document.h"
#include "plan/document_parts.h"

namespace fermata::plan {
namespace {

constexpr int64_t kMostStreamSteps = 1'000'000'000'000;
constexpr int64_t kLargestInput = 1'000'000;
constexpr double kHighestStreamRate = 1e6;
const std::vector<std::string_view> kSolvers{"best", "exact", "annealing"};

std::vector<Reader> limited(Reader list, size_t least, size_t most) {
  std::vector<Reader> values = list.list(least);
  if (values.size() > most) list.fail(fmt::format("at most {}", most));
  return values;
}

bool decreases(const LatencyModel& model, uint32_t max_batch) {
  for (uint32_t b = 2; b <= max_batch; ++b) {
    if (latency_ms(model, b) < latency_ms(model, b - 1)) return true;
  }
  return false;
}

StreamVariant read_stream_variant(Reader value, Names& taken) {
  ObjectReader fields = value.object();
  StreamVariant v;
  v.name = read_own_name(fields["name"], taken);
  v.input_size = static_cast<uint32_t>(fields["input_size"].integer(1, kLargestInput));
  v.accuracy = fields["accuracy"].between(0, 1);
  v.request_kb = fields["request_kb"].non_negative();
  v.delay_ms = fields["delay_ms"].non_negative(0.0);
  v.service = fields["service"].string("");
  const Reader latency = fields["latency_ms"];
  const LatencyModel model = read_latency(latency);
  const int64_t batch =
      fields["max_batch"].integer(1, StreamVariant::kMostBatch, StreamVariant::kMostBatch);
  if (value.failed()) return v;
  auto table = LatencyTable::make(model, static_cast<uint32_t>(batch));
  if (table.ok() && (**table)((*table)->max_batch()).millis() <= kLongestMs) {
    v.latency = *std::move(table);
    v.raised = decreases(model, v.latency->max_batch());
  } else {
    latency.fail(fmt::format("0 to {} ms for every batch size", kLongestMs));
  }
  return v;
}

StreamClient read_stream_client(Reader value, Names& taken) {
  ObjectReader fields = value.object();
  StreamClient c;
  c.id = read_own_name(fields["id"], taken);
  const Reader rate = fields["rate_rps"], slo = fields["slo_ms"];
  c.rate_rps = rate.positive();
  if (c.rate_rps > kHighestStreamRate) rate.fail(fmt::format("at most {}", kHighestStreamRate));
  c.slo_ms = slo.positive();
  if (c.slo_ms > kLongestMs) slo.fail(fmt::format("at most {}", kLongestMs));
  c.bandwidth_mbps = fields["bandwidth_mbps"].positive();
  c.rtt_ms = fields["rtt_ms"].non_negative(0.0);
  c.min_accuracy = fields["min_accuracy"].between(0, 1, 0.0);
  if (const Reader ahead = fields["batches_ahead"]; ahead.present()) {
    c.batches_ahead = ahead.between(0, 10);
  }
  c.service = fields["service"].string("");
  return c;
}

void read_current(Reader list, StreamProblem& p) {
  if (!list.present()) return;
  absl::flat_hash_map<std::string, uint32_t> index;
  for (uint32_t v = 0; v < p.variants.size(); ++v) index.emplace(p.variants[v].name, v);
  for (const Reader value : list.list()) {
    const auto found = index.find(value.string());
    if (found == index.end()) return value.fail("the name of a variant");
    p.current.push_back(found->second);
  }
  if (p.current.size() > p.workers) return list.fail("at most one variant for each worker");
  if (p.current.empty() || p.variants.empty()) return;
  const auto least = std::min_element(
      p.variants.begin(), p.variants.end(),
      [](const StreamVariant& a, const StreamVariant& b) { return a.accuracy < b.accuracy; });
  p.current.resize(p.workers, static_cast<uint32_t>(least - p.variants.begin()));
}

}  // namespace

std::vector<StreamVariant> read_stream_variants(Reader list) {
  std::vector<StreamVariant> variants;
  Names names;
  for (const Reader value : limited(list, 1, StreamProblem::kMostVariants)) {
    if (list.failed()) break;
    variants.push_back(read_stream_variant(value, names));
  }
  return variants;
}

StreamProblem read_stream_problem(Reader root) {
  ObjectReader fields = root.object();
  StreamProblem p;
  p.workers = static_cast<uint32_t>(fields["workers"].integer(1, StreamProblem::kMostWorkers));
  const Reader share = fields["worker_share"];
  p.worker_share = share.positive(p.worker_share);
  if (p.worker_share > 1) share.fail("at most 1");
  p.period_ms = fields["period_ms"].positive(p.period_ms);
  p.batches_ahead = fields["batches_ahead"].between(0, 10, p.batches_ahead);
  p.seed = static_cast<uint64_t>(fields["seed"].integer(0, INT64_MAX, 1));
  p.solver = static_cast<StreamSolver>(fields["solver"].choice(kSolvers, 0));
  if (const Reader steps = fields["max_steps"]; steps.present()) {
    p.max_steps = static_cast<uint64_t>(steps.integer(1, kMostStreamSteps));
  }
  p.variants = read_stream_variants(fields["variants"]);
  const Reader clients = fields["clients"], current = fields["current"];
  Names ids;
  for (const Reader value : limited(clients, 0, StreamProblem::kMostClients)) {
    if (root.failed()) return p;
    p.clients.push_back(read_stream_client(value, ids));
  }
  if (!root.failed()) read_current(current, p);
  return p;
}

Json write_stream_problem(const StreamProblem& problem) {
  Json out = {{"workers", problem.workers},
              {"period_ms", problem.period_ms},
              {"batches_ahead", problem.batches_ahead},
              {"variants", Json::array()},
              {"clients", Json::array()}};
  double slo_ms = 0;
  for (const StreamClient& c : problem.clients) slo_ms = std::max(slo_ms, c.slo_ms);
  for (const StreamVariant& v : problem.variants) {
    TableLatency table;
    for (uint32_t b = 1; b <= v.latency->max_batch(); ++b) {
      table.points_ms[b] = millis((*v.latency)(b));
      if (table.points_ms[b] > slo_ms) break;
    }
    out["variants"].push_back({{"name", v.name},
                               {"input_size", v.input_size},
                               {"accuracy", v.accuracy},
                               {"request_kb", v.request_kb},
                               {"delay_ms", v.delay_ms},
                               {"latency_ms", write_latency(table)}});
    if (!v.service.empty()) out["variants"].back()["service"] = v.service;
  }
  for (const StreamClient& c : problem.clients) {
    out["clients"].push_back({{"id", c.id},
                              {"rate_rps", c.rate_rps},
                              {"slo_ms", c.slo_ms},
                              {"bandwidth_mbps", c.bandwidth_mbps},
                              {"rtt_ms", c.rtt_ms},
                              {"min_accuracy", c.min_accuracy}});
    if (c.batches_ahead) out["clients"].back()["batches_ahead"] = *c.batches_ahead;
    if (!c.service.empty()) out["clients"].back()["service"] = c.service;
  }
  if (problem.worker_share != 1) out["worker_share"] = problem.worker_share;
  if (!problem.current.empty()) {
    out["current"] = Json::array();
    for (const uint32_t v : problem.current) out["current"].push_back(problem.variants[v].name);
  }
  out["seed"] = problem.seed;
  out["solver"] = kSolvers[static_cast<size_t>(problem.solver)];
  if (problem.max_steps) out["max_steps"] = *problem.max_steps;
  return out;
}

Json write_stream_plan(const StreamProblem& problem, const StreamPlan& plan) {
  const auto ids = [&](const std::vector<uint32_t>& clients) {
    Json list = Json::array();
    for (const uint32_t c : clients) list.push_back(problem.clients[c].id);
    return list;
  };
  Json out = {{"objective", plan.objective},    {"mean_accuracy", plan.mean_accuracy},
              {"served", plan.served},          {"exact", plan.exact},
              {"unmapped", ids(plan.unmapped)}, {"workers", Json::array()}};
  for (const StreamVariant& variant : problem.variants) {
    if (variant.raised) out["raised_latencies"].push_back(variant.name);
  }
  for (const StreamPlan::Worker& worker : plan.workers) {
    out["workers"].push_back({{"worker", worker.worker},
                              {"variant", problem.variants[worker.variant].name},
                              {"batch", worker.batch},
                              {"clients", ids(worker.clients)}});
  }
  return out;
}

}  // namespace fermata::plan
