#include "serve/live/live_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "serve/json/json_text.h"

namespace fermata::serve {
namespace {

using engine::Outcome;
using policy::StartRule;

Json rejected_json(const tune::ServiceCounts& counts) {
  return {{"deadline", counts.of(Outcome::kRejectedDeadline)},
          {"queue", counts.of(Outcome::kRejectedQueue)},
          {"unavailable", counts.of(Outcome::kUnavailable)},
          {"invalid", counts.of(Outcome::kInvalid)}};
}

Json counts_json(const tune::ServiceCounts& counts) {
  return {{"offered", counts.came},
          {"on_time", counts.of(Outcome::kOnTime)},
          {"late", counts.of(Outcome::kLate)},
          {"failed", counts.of(Outcome::kFailed)},
          {"cancelled", counts.of(Outcome::kCancelled)},
          {"rejected", rejected_json(counts)}};
}

Json accuracy_json(const tune::ServiceCounts& counts) {
  return counts.accuracy ? Json(*counts.accuracy) : Json(nullptr);
}

Json service_json(const tune::ServiceCounts& counts) {
  Json json = counts_json(counts);
  json["answered_by"] = counts.answered_by;
  json["accuracy"] = accuracy_json(counts);
  json["p50_ms"] = counts.p50.millis();
  json["p99_ms"] = counts.p99.millis();
  Json batches = Json::object();
  for (const auto& [items, count] : counts.batches) batches[std::to_string(items)] = count;
  json["batches"] = std::move(batches);
  json["waiting"] = counts.waiting;
  json["drift"] = counts.drift;
  if (!counts.called) json["stage"] = true;
  return json;
}

void append_time(std::string_view name, Time t, std::string& out) {
  if (t.is_infinite()) {
    fmt::format_to(std::back_inserter(out), "\"{}\":null,", name);
  } else {
    fmt::format_to(std::back_inserter(out), "\"{}\":{},", name, t.nanos() / 1000);
  }
}

void append_text(std::string_view name, std::string_view text, std::string& out) {
  fmt::format_to(std::back_inserter(out), "\"{}\":", name);
  append_json(text, out);
  out += ',';
}

// In the place of the last comma.
void close(char bracket, std::string& out) {
  if (out.back() == ',') out.pop_back();
  out += bracket;
}

void append_batch(const tune::RecordedBatch& batch, const std::vector<tune::RecordedRequest>& of,
                  LiveNames& names, std::string& out) {
  Time first = Time::infinite();
  for (const auto& request : of) first = std::min(first, request.nominated);
  const tune::BatchWait wait = wait_of(batch, first);
  fmt::format_to(std::back_inserter(out), "{{\"id\":{},\"worker\":{},\"items\":{},", batch.id,
                 batch.worker, batch.items);
  append_text("model", names.model(batch.model), out);
  append_text("service", names.service(batch.service), out);
  append_time("start_us", batch.start.is_infinite() ? batch.expected_start : batch.start, out);
  append_time("end_us", batch.end, out);
  append_time("expected_end_us", batch.expected_end, out);
  append_text("rule", name(batch.rule), out);
  append_text("why", why_started(batch, wait), out);
  append_text("waited_for", name(wait.what), out);
  out += "\"requests\":[";
  for (const tune::RecordedRequest& request : of) {
    fmt::format_to(std::back_inserter(out), "{{\"id\":{},\"items\":{},", request.id.value(),
                   request.items);
    append_text("service", names.service(request.service), out);
    append_time("arrival_us", request.arrival, out);
    append_time("nominated_us", request.nominated, out);
    append_time("deadline_us", request.deadline, out);
    close('}', out);
    out += ',';
  }
  close(']', out);
  fmt::format_to(std::back_inserter(out), ",\"more\":{}}}", batch.requests.size() - of.size());
}

}  // namespace

std::string live_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json us_or_null(Time t) { return t.is_infinite() ? Json(nullptr) : Json(t.nanos() / 1000); }

Json json_of(const tune::Period& period) {
  const tune::ServiceCounts all = period.pool();
  Json pool = counts_json(all);
  pool["busy"] = period.busy;
  pool["workers"] = period.workers;
  pool["idle"] = std::lround((1 - period.busy) * period.workers);
  pool["memory_mb"] = std::lround(period.memory_mb);
  pool["workers_wanted"] = period.workers_wanted ? Json(*period.workers_wanted) : Json(nullptr);
  pool["control_delay_ms"] = period.control_delay.millis();
  pool["accuracy"] = accuracy_json(all);
  pool["waiting"] = all.waiting;
  pool["renewals"] = period.renewals;
  Json services = Json::object();
  for (const auto& [name, counts] : period.services) services[name] = service_json(counts);
  return {{"at_us", period.at.nanos() / 1000},
          {"length_us", period.length.nanos() / 1000},
          {"pool", std::move(pool)},
          {"services", std::move(services)}};
}

Json json_of(const std::vector<tune::ServiceFacts>& services) {
  Json all = Json::array();
  for (const tune::ServiceFacts& each : services) {
    all.push_back({{"name", each.name},
                   {"kind", name(each.kind)},
                   {"slo_ms", each.slo ? Json(each.slo->millis()) : Json(nullptr)},
                   {"members", each.members},
                   {"accuracy", each.accuracy ? Json(*each.accuracy) : Json(nullptr)},
                   {"configured", each.configured},
                   {"ready", each.ready}});
  }
  return all;
}

Json json_of(const std::vector<engine::ModelStatus>& unserved) {
  Json all = Json::array();
  for (const engine::ModelStatus& each : unserved) {
    all.push_back({{"name", each.name}, {"reason", each.reason}});
  }
  return all;
}

Json workers_json(const engine::EngineSnapshot& snapshot) {
  const std::vector<std::string>& types = snapshot.worker_types;
  Json all = Json::array();
  for (const engine::WorkerStatistics& worker : snapshot.workers) {
    all.push_back({{"id", worker.worker},
                   {"name", fmt::format("worker {}", worker.worker)},
                   {"type", worker.type < types.size() ? types[worker.type] : ""},
                   {"serving", worker.serving}});
    if (!worker.host.empty()) {
      all.back()["name"] = fmt::format("worker {} at {}", worker.worker, worker.host);
    }
  }
  return all;
}

const std::string& LiveNames::service(uint32_t number) {
  const auto [at, is_new] = services_.try_emplace(number);
  if (is_new) at->second = recorder_.service_name(number);
  return at->second;
}

const std::string& LiveNames::model(VariantId id) {
  const auto [at, is_new] = models_.try_emplace(id);
  if (is_new) at->second = recorder_.model_name(id);
  return at->second;
}

std::string timeline_json(const tune::Recorder::Changes& changes, LiveNames& names, Time now) {
  std::string out = fmt::format("{{\"now_us\":{},\"batches\":[", now.nanos() / 1000);
  for (size_t i = 0; i < changes.batches.size(); ++i) {
    append_batch(changes.batches[i], changes.requests[i], names, out);
    out += ',';
  }
  close(']', out);
  fmt::format_to(std::back_inserter(out), ",\"more\":{},\"waiting\":[", changes.left_out);
  for (const tune::RecordedRequest& request : changes.waiting) {
    fmt::format_to(std::back_inserter(out), "{{\"id\":{},", request.id.value());
    append_text("model", names.service(request.service), out);
    append_text("service", names.service(request.service), out);
    append_time("arrival_us", request.arrival, out);
    append_time("deadline_us", request.deadline, out);
    close('}', out);
    out += ',';
  }
  close(']', out);
  out += ",\"loads\":[";
  for (const tune::RecordedLoad& load : changes.loads) {
    fmt::format_to(std::back_inserter(out), "{{\"worker\":{},", load.worker);
    append_text("model", names.model(load.model), out);
    append_time("start_us", load.from, out);
    append_time("end_us", load.to, out);
    close('}', out);
    out += ',';
  }
  close(']', out);
  out += ",\"deaths\":[";
  for (const tune::RecordedDeath& death : changes.deaths) {
    fmt::format_to(std::back_inserter(out), "{{\"worker\":{},", death.worker);
    append_text("model", names.model(death.model), out);
    append_time("at_us", death.at, out);
    append_text("signal", death.cause.view(), out);
    close('}', out);
    out += ',';
  }
  close(']', out);
  return out + "}";
}

std::string why_started(const tune::RecordedBatch& batch, const tune::BatchWait& wait) {
  const std::string held = fmt::format("{:.1f} ms", wait.held.millis());
  std::string text;
  switch (batch.rule) {
    case StartRule::kAtOnce:
      text = "The policy holds no batches: it starts as soon as a worker is free.";
      break;
    case StartRule::kLatestStart:
      text = fmt::format(
          "Held {} for more requests, until waiting for one more would have made its "
          "first one late.",
          held);
      break;
    case StartRule::kEarly:
      text = fmt::format(
          "Held {} for more requests, and started before its latest moment, because "
          "workers lately came late or a larger batch would have saved little.",
          held);
      break;
    case StartRule::kFullBatch:
      text = "It has as many items as a batch may have.";
      break;
    case StartRule::kNoMatesExpected:
      text = fmt::format("Held {}; no more requests were expected in time.", held);
      break;
    case StartRule::kSpareWorkers:
      text = "There were workers enough to run every item alone.";
      break;
    case StartRule::kHeldLongEnough:
      text = fmt::format("Held {}; to wait longer was not worth a larger batch.", held);
      break;
    case StartRule::kPlanned:
      text = "Started at the time that was planned for it, or for a pipeline that had begun.";
      break;
    case StartRule::kBestEffort:
      text = "Nothing in it has a deadline: it runs when no other request needs the worker.";
      break;
    case StartRule::kChosen:
      text = "The service chose this model, and who is in the batch, when the worker became free.";
      break;
  }
  if (wait.what == tune::WaitedFor::kWorker) {
    text += fmt::format(" Then it waited {:.1f} ms for a worker.", wait.worker.millis());
  }
  return text;
}

}  // namespace fermata::serve
