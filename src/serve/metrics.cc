#include "serve/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/status.h"
#include "engine/confine/machine.h"
#include "engine/confine/processor_quota.h"
#include "serve/cluster_metrics.h"
#include "serve/grpc/watched_reads.h"
#include "serve/http/compressed.h"
#include "serve/http/http_front_end.h"
#include "serve/metric_families.h"

namespace fermata::serve {
namespace {

// Triton's four reasons for a failure; null: no failure.
const char* failure_reason(engine::Outcome outcome) {
  switch (outcome) {
    case engine::Outcome::kOnTime:
    case engine::Outcome::kLate:
      return nullptr;
    case engine::Outcome::kRejectedDeadline:
    case engine::Outcome::kRejectedQueue:
      return "REJECTED";
    case engine::Outcome::kCancelled:
      return "CANCELED";
    case engine::Outcome::kFailed:
      return "BACKEND";
    case engine::Outcome::kUnavailable:
    case engine::Outcome::kInvalid:
      break;
  }
  return "OTHER";
}

double us(const engine::DurationCount& d) { return d.total.micros(); }

Labels with(Labels labels, std::string name, std::string value) {
  labels.push_back({std::move(name), std::move(value)});
  return labels;
}

void add_known_names(const engine::ServiceStatistics& row, const Labels& labels, Families& out) {
  out.counter("nv_inference_request_success", "Requests answered", labels,
              static_cast<double>(row.success.count));
  std::map<std::string, uint64_t> failures = {
      {"REJECTED", 0}, {"CANCELED", 0}, {"BACKEND", 0}, {"OTHER", 0}};
  for (size_t i = 0; i < engine::kOutcomes; ++i) {
    const char* reason = failure_reason(static_cast<engine::Outcome>(i));
    if (reason != nullptr) failures[reason] += row.outcomes[i];
  }
  for (const auto& [reason, count] : failures) {
    out.counter("nv_inference_request_failure", "Requests that ended without an answer",
                with(labels, "reason", reason), static_cast<double>(count));
  }
  out.counter("nv_inference_count", "Items answered", labels,
              static_cast<double>(row.inference_count));
  out.counter("nv_inference_exec_count", "Batches run", labels,
              static_cast<double>(row.execution_count));
  out.gauge("nv_inference_pending_request_count", "Requests that wait for a worker", labels,
            static_cast<double>(row.pending));
  out.counter("nv_inference_request_duration_us", "Time of answered requests in the server", labels,
              us(row.success));
  out.counter("nv_inference_queue_duration_us", "Time they waited for a worker", labels,
              us(row.queue));
  out.counter("nv_inference_compute_input_duration_us", "Time to gather their inputs", labels,
              us(row.compute_input));
  out.counter("nv_inference_compute_infer_duration_us", "Time in the model", labels,
              us(row.compute_infer));
  out.counter("nv_inference_compute_output_duration_us", "Time to scatter their outputs", labels,
              us(row.compute_output));
}

// How many batches had how many items, in powers of two.
engine::HistogramSnapshot batch_sizes(const engine::ServiceStatistics& row) {
  engine::HistogramSnapshot result;
  for (uint32_t bound = 1; bound <= 1024; bound *= 2) result.bounds.push_back(bound);
  result.counts.resize(result.bounds.size() + 1);
  for (const auto& [items, batch] : row.batches) {
    size_t at = 0;
    while (at < result.bounds.size() && items > result.bounds[at]) ++at;
    result.counts[at] += batch.compute_infer.count;
    result.sum += static_cast<double>(items) * static_cast<double>(batch.compute_infer.count);
  }
  return result;
}

void add_deadlines(const engine::ServiceStatistics& row, const Labels& labels, Families& out) {
  constexpr double kMilli = 1e-3;
  for (size_t i = 0; i < engine::kOutcomes; ++i) {
    out.counter("fermata_requests_total", "Requests by how they ended",
                with(labels, "outcome", std::string(name(static_cast<engine::Outcome>(i)))),
                static_cast<double>(row.outcomes[i]));
  }
  out.histogram("fermata_slack_seconds",
                "Deadline minus reply of answered requests; negative: late", labels, row.slack_ms,
                kMilli);
  out.histogram("fermata_queueing_seconds", "Arrival to the start of the batch", labels,
                row.queueing_ms, kMilli);
  out.histogram("fermata_latency_seconds", "Arrival to the reply", labels, row.latency_ms, kMilli);
  out.histogram("fermata_batch_size", "Items in a batch", labels, batch_sizes(row), 1);
  for (size_t stage = 0; stage < row.exits.size(); ++stage) {
    out.counter("fermata_exits_total", "Items of a dynamic network by the stage they left after",
                with(labels, "stage", std::to_string(stage + 1)),
                static_cast<double>(row.exits[stage]));
  }
  if (!row.exits.empty()) {
    out.counter("fermata_widened_batches_total", "Batches whose later stages ran wider than asked",
                labels, static_cast<double>(row.widened));
  }
  for (const auto& [variant, items] : row.answers) {
    out.counter("fermata_variant_items_total", "Items by the variant or base model that answered",
                with(labels, "variant", variant), static_cast<double>(items));
  }
  out.gauge("fermata_profile_drift_ratio", "Measured over profiled time of a batch", labels,
            row.drift);
}

void add_autoscale(const engine::AutoscaleSignal& signal, Families& out) {
  if (signal.window == Duration()) return;
  out.gauge("fermata_autoscale_workers_to_add", "Workers that the last window lacked", {},
            static_cast<double>(std::max<int64_t>(signal.workers_to_add, 0)));
  out.gauge("fermata_autoscale_workers_to_give_back", "Workers that the last window did not need",
            {}, static_cast<double>(std::max<int64_t>(-signal.workers_to_add, 0)));
  out.gauge("fermata_autoscale_bad_rate", "Share of the window's requests late or rejected", {},
            signal.bad_rate);
  out.gauge("fermata_autoscale_idle_ratio", "Share of the workers' time in it without work", {},
            signal.idle_fraction);
  for (const auto& [type, wanted] : signal.wanted) {
    out.gauge("fermata_workers_wanted", "Workers of a type that the load asks for, steadied",
              {{"type", type}}, wanted);
  }
}

// What adapters decided.
void add_pipelines(const engine::EngineSnapshot& snapshot, Families& out) {
  for (const engine::PipelineStatistics& row : snapshot.pipelines) {
    const Labels labels = {{"service", row.service}};
    out.counter("fermata_pipeline_decisions_total", "Decisions of a pipeline's adapter", labels,
                static_cast<double>(row.decisions));
    out.counter("fermata_pipeline_infeasible_total", "Decisions where nothing kept the limits",
                labels, static_cast<double>(row.infeasible));
    out.gauge("fermata_pipeline_forecast_rps", "Load that a pipeline is planned for", labels,
              row.forecast_rps);
    for (const auto& [route, count] : row.serving) {
      out.gauge("fermata_pipeline_serving_replicas",
                "Dedicated replicas that serve a stage's variant",
                {{"service", row.service}, {"route", route}}, count);
    }
    if (row.stages.empty()) continue;
    out.gauge("fermata_pipeline_cost", "Cost of a pipeline's plan (cores)", labels, row.cost);
    out.gauge("fermata_pipeline_accuracy", "Accuracy of a pipeline's plan", labels, row.accuracy);
    for (const auto& stage : row.stages) {
      const Labels own = {
          {"service", row.service}, {"stage", stage.name}, {"variant", stage.variant}};
      out.gauge("fermata_pipeline_replicas", "Planned replicas of a stage", own, stage.replicas);
      out.gauge("fermata_pipeline_batch", "Planned batch size of a stage", own, stage.batch);
    }
  }
}

// Absent where memory is unlimited: then every model is everywhere.
void add_placement(const engine::EngineSnapshot& snapshot, Families& out) {
  constexpr double kMiB = 1 << 20;
  if (snapshot.subclusters.empty() || !std::isfinite(snapshot.subclusters[0].memory_mb)) return;
  for (size_t i = 0; i < snapshot.subclusters.size(); ++i) {
    const Labels labels = {{"subcluster", std::to_string(i)}};
    const engine::SubclusterStatistics& row = snapshot.subclusters[i];
    out.gauge("fermata_subcluster_workers", "Workers of a sub-cluster", labels, row.workers);
    out.gauge("fermata_subcluster_memory_used_bytes", "What its models need of each of them",
              labels, row.used_mb * kMiB);
    out.gauge("fermata_subcluster_memory_limit_bytes", "What each of them has", labels,
              row.memory_mb * kMiB);
  }
  const engine::PlacementSnapshot& placement = snapshot.placement;
  for (const auto& [model, subcluster] : placement.subcluster_of) {
    out.gauge("fermata_model_subcluster", "The number of the sub-cluster that has a model",
              {{"model", model}}, subcluster);
  }
  const std::pair<const char*, uint64_t> changes[] = {{"load", placement.loads},
                                                      {"move", placement.moves},
                                                      {"postponed", placement.postponed},
                                                      {"failed", placement.failed}};
  for (const auto& [result, count] : changes) {
    out.counter("fermata_placement_changes_total", "Models that were to live elsewhere",
                {{"result", result}}, static_cast<double>(count));
  }
  out.counter("fermata_placement_epochs_total", "Epochs that have ended", {},
              static_cast<double>(placement.epochs));
  if (placement.epochs == 0) return;
  out.gauge("fermata_placement_epoch_duration_seconds", "Planning and moving, of the last epoch",
            {}, placement.last_epoch.seconds());
  out.gauge("fermata_placement_plan_duration_seconds", "Of it, planning", {},
            placement.last_plan.seconds());
  out.gauge("fermata_placement_rate_imbalance_ratio",
            "Largest minus smallest request rate of a sub-cluster, over the mean", {},
            placement.rate_imbalance);
  out.gauge("fermata_placement_memory_imbalance_ratio",
            "Largest minus smallest static memory of a sub-cluster, over the mean", {},
            placement.memory_imbalance);
}

void add_house(const engine::EngineSnapshot& snapshot, Families& out) {
  out.gauge("fermata_info", "Always 1; what is running",
            {{"version", FERMATA_VERSION}, {"policy", snapshot.policy}}, 1);
  out.gauge("fermata_uptime_seconds", "Time since the engine started", {},
            (snapshot.now - snapshot.started).seconds());
  out.gauge("fermata_control_delay_seconds", "Delay that decisions allow for", {},
            snapshot.control_delay.seconds());
  out.gauge("fermata_batch_keys", "Variants and shapes that may form batches", {},
            static_cast<double>(snapshot.batch_keys));
  out.counter("fermata_unknown_requests_total", "Requests for services that there are not", {},
              static_cast<double>(snapshot.unknown));
  for (const engine::WorkerStatistics& worker : snapshot.workers) {
    const Labels labels = {{"worker", std::to_string(worker.worker)},
                           {"type", snapshot.worker_types.at(worker.type)}};
    out.counter("fermata_worker_busy_seconds_total", "Time a worker ran batches", labels,
                worker.busy.seconds());
    out.counter("fermata_worker_batches_total", "Batches a worker ran", labels,
                static_cast<double>(worker.batches));
    out.gauge("fermata_worker_overdue", "1: its run is beyond its limit and has not ended", labels,
              worker.health.overdue ? 1 : 0);
    out.gauge("fermata_worker_serving", "0: it has left, and has nothing loaded", labels,
              worker.serving ? 1 : 0);
    out.counter("fermata_worker_renewals_total", "Times a worker was replaced: a run never ended",
                labels, static_cast<double>(worker.health.renewals));
  }
}

void add_processes(const engine::EngineSnapshot& snapshot, Families& out) {
  std::map<std::string, engine::ProcessStatistics> by_model;  // several where it has several
  for (const engine::ProcessStatistics& process : snapshot.processes) {
    engine::ProcessStatistics& row = by_model[process.model];
    row.starts += process.starts;
    row.quarantined = row.quarantined || process.quarantined;
    row.standby = row.standby || process.standby;
    row.processor_s += process.processor_s;
    for (const auto& [cause, count] : process.deaths_by) row.deaths_by[cause] += count;
  }
  for (const auto& [model, row] : by_model) {
    out.counter("fermata_model_process_starts_total", "Processes that were started for a model",
                {{"model", model}}, static_cast<double>(row.starts));
    out.gauge("fermata_model_quarantined", "1: its processes keep dying, and it is not run",
              {{"model", model}}, row.quarantined ? 1 : 0);
    out.gauge("fermata_model_standby", "1: another of its processes waits, loaded",
              {{"model", model}}, row.standby ? 1 : 0);
    out.counter("fermata_model_process_processor_seconds_total",
                "Processor time that a model's processes have taken", {{"model", model}},
                row.processor_s);
    for (const auto& [cause, count] : row.deaths_by) {
      out.counter("fermata_model_process_deaths_total", "Processes of a model that ended unasked",
                  {{"model", model}, {"signal", cause}}, static_cast<double>(count));
    }
  }
}

void add_processors(Families& out) {
  const engine::ProcessorQuota quota = engine::processor_quota();
  const auto all = static_cast<double>(engine::own_processors().size());
  out.gauge("fermata_processors", "Processors' time that the server and its processes may use", {},
            std::min(all, quota.cores.value_or(all)));
  out.counter("fermata_throttled_seconds_total",
              "Time that the cgroup held back threads, since its quota was used up", {},
              quota.throttled_s);
}

void add_streams(const engine::EngineSnapshot& snapshot, Families& out) {
  for (const engine::StreamStatistics& s : snapshot.streams) {
    const Labels labels = {{"service", s.service}};
    const auto of = [](uint64_t count) { return static_cast<double>(count); };
    out.gauge("fermata_stream_clients", "Clients that are connected", labels, of(s.clients));
    out.gauge("fermata_stream_mapped_clients", "Clients that the last plan serves", labels,
              of(s.mapped));
    out.gauge("fermata_stream_mean_accuracy", "Over the frames of all clients, by the last plan",
              labels, s.mean_accuracy);
    out.counter("fermata_stream_frames_total", "Frames received", labels, of(s.frames));
    out.counter("fermata_stream_mismatches_total",
                "Frames of another size than the client's DNN has by now", labels,
                of(s.mismatches));
    out.counter("fermata_stream_unmapped_total", "Frames of clients that no DNN can serve", labels,
                of(s.unmapped));
    out.counter("fermata_stream_flooded_total", "Frames beyond the registered rate", labels,
                of(s.flooded));
    out.counter("fermata_stream_plans_total", "Plans made", labels, of(s.plans));
    out.counter("fermata_stream_switches_total",
                "Switches of workers to another DNN, where not all have room", labels,
                of(s.switches));
    out.counter("fermata_stream_prefetched_total", "Switches to a DNN that was loaded ahead",
                labels, of(s.prefetched));
    out.counter("fermata_stream_stale_total",
                "Frames that came while no worker had their client's DNN", labels, of(s.stale));
  }
}

void add_front_ends(const FrontEnds& front_ends, Families& out) {
  for (const auto& [protocol, counters, connections] : front_ends) {
    const Labels labels = {{"protocol", protocol}};
    out.counter("fermata_front_end_requests_total", "Infer messages received", labels,
                static_cast<double>(counters.requests.load()));
    out.counter("fermata_front_end_rejected_total", "Infer messages that could not be decoded",
                labels, static_cast<double>(counters.rejected.load()));
    out.gauge("fermata_front_end_running", "Infer messages without a reply yet", labels,
              static_cast<double>(counters.running.load()));
    out.gauge("fermata_connections", "Connections that are open", labels,
              static_cast<double>(connections()));
  }
  out.counter("fermata_floods_total", "Connections of gRPC that were ended as floods", {},
              static_cast<double>(floods_ended()));
}

void add_held(const ByteBudget& held, Families& out) {
  out.gauge("fermata_held_bytes", "What clients' messages and replies hold", {},
            static_cast<double>(held.used()));
  out.gauge("fermata_held_limit_bytes", "What they may hold", {},
            static_cast<double>(held.limit()));
}

void add_tuning(const tune::TuningStatus& tuning, Families& out) {
  const auto row_labels = [](std::string_view name) -> Labels {
    return {{"rules", std::string(name)}};
  };
  out.gauge("fermata_rules_active", "1: the scheduler follows these rules",
            row_labels(tuning.rules), 1);
  out.gauge("fermata_rules_since_seconds", "When it began to, on the server's monotonic clock", {},
            (tuning.since - Time()).seconds());
  out.counter("fermata_rules_moves_total", "Moves to other rules", {},
              static_cast<double>(tuning.moves));
  out.counter("fermata_rules_trials_total", "Trials of all rules on recorded requests", {},
              static_cast<double>(tuning.trials));
  for (const tune::TuningStatus::Row& row : tuning.rows) {
    if (!row.loss) continue;
    out.gauge("fermata_rules_loss", "Share that the rules would lose of the worst service",
              row_labels(row.name), *row.loss);
  }
}

}  // namespace

std::string metrics_text(const engine::EngineSnapshot& snapshot, const FrontEnds& front_ends,
                         const ByteBudget& held, const tune::TuningStatus& tuning) {
  Families families;
  for (const engine::ServiceStatistics& row : snapshot.services) {
    add_known_names(row, {{"model", row.service}, {"version", row.version}}, families);  // Triton's
    add_deadlines(row, {{"service", row.service}, {"version", row.version}}, families);
  }
  add_house(snapshot, families);
  add_placement(snapshot, families);
  add_autoscale(snapshot.autoscale, families);
  add_processes(snapshot, families);
  add_cluster(snapshot.cluster, families);
  add_streams(snapshot, families);
  add_processors(families);
  add_pipelines(snapshot, families);
  add_front_ends(front_ends, families);
  add_held(held, families);
  add_tuning(tuning, families);
  return prometheus::TextSerializer().Serialize(families.all());
}

void MetricsFrontEnd::request(HttpExchange exchange) {
  const std::string_view target = exchange.target();
  if (target.substr(0, target.find('?')) != "/metrics") {
    return exchange.respond(error_response(not_found("the metrics are at /metrics")));
  }
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_text(engine_.snapshot(), front_ends_, *held_, tuner_.status());
  compress_response(response, choose_encoding(exchange.header("Accept-Encoding")));
  exchange.respond(std::move(response));
}

}  // namespace fermata::serve
