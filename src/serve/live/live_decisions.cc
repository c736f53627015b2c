#include "serve/live/live_decisions.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "engine/services/adapter.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/ensemble/pool_document.h"
#include "plan/pipeline/pipeline_document.h"
#include "plan/placement/placement_document.h"
#include "plan/streams/stream_document.h"
#include "plan/variants/group_document.h"
#include "serve/http/http_routes.h"
#include "serve/live/live_json.h"

namespace fermata::serve {
namespace {

// "1 request", "2 requests"
std::string count_of(const Json& document, const char* field, std::string_view one,
                     std::string_view more) {
  const auto found = document.find(field);
  const size_t count = found == document.end() ? 0 : found->size();
  return fmt::format("{} {}", count, count == 1 ? one : more);
}

// What it saw: whose requests, with how much time, and what could run when.
std::string summary_of(const plan::GroupProblem& problem) {
  std::map<std::string, size_t> services;
  Time first = Time::infinite();
  for (const plan::GroupRequest& request : problem.requests) {
    ++services[problem.services[request.service].name];
    first = std::min(first, request.deadline);
  }
  std::vector<std::string> said;
  for (const auto& [name, count] : services) {
    said.push_back(fmt::format("{} of '{}'", count, name));
  }
  const auto idle = absl::c_count_if(
      problem.workers, [&](const auto& worker) { return worker.free_at <= problem.now; });
  return fmt::format(
      "Chose who answers the requests that waited: {}. The first deadline was {} "
      "away; {} of {} workers {} idle, and {} models could answer.",
      fmt::join(said, ", "),
      first.is_infinite() ? "infinitely far"
                          : fmt::format("{:.1f} ms", (first - problem.now).millis()),
      idle, problem.workers.size(), idle == 1 ? "was" : "were", problem.models.size());
}

void add_pipelines(const engine::Engine& engine, std::vector<Decided>& to) {
  std::set<std::string> seen;
  for (const engine::AdapterDecision& each : engine.adapter_decisions()) {
    if (!seen.insert(each.service).second) continue;
    to.push_back({.id = "pipeline:" + each.service,
                  .kind = "pipeline",
                  .service = each.service,
                  .at = each.at,
                  .took = each.took,
                  .summary = fmt::format("Decision {}: planned for {:.1f} requests/s; {}.",
                                         each.number, each.forecast_rps,
                                         each.decision.applied
                                             ? "the variants, batch sizes or replicas changed"
                                             : "nothing had to change"),
                  .problem = plan::write_pipeline_problem(each.decision.problem),
                  .command = "plan pipeline"});
  }
}

void add_streams(const engine::Engine& engine, std::vector<Decided>& to) {
  const auto last = engine.last_stream_decision();
  if (!last) return;
  Json problem = plan::write_stream_problem(last->problem);
  std::string summary =
      fmt::format("Divided {} among {}.", count_of(problem, "clients", "client", "clients"),
                  count_of(problem, "variants", "variant", "variants"));
  to.push_back({.id = "streams",
                .kind = "streams",
                .at = last->at,
                .took = last->took,
                .summary = std::move(summary),
                .problem = std::move(problem),
                .command = "plan streams"});
}

// The newest of each kind. Schedulers decide these whenever a worker becomes free, and do not take
// the time.
void add_choices(const engine::Engine& engine, std::vector<Decided>& to) {
  bool variants = false, ensembles = false;
  for (const policy::Problem& each : engine.last_problems()) {
    const auto* const group = std::get_if<plan::GroupProblem>(&each);
    if (std::exchange(group != nullptr ? variants : ensembles, true)) continue;
    Json problem = std::visit([](const auto& own) { return plan::to_document(own); }, each);
    Decided& made = to.emplace_back();
    made.id = made.kind = group != nullptr ? "variants" : "ensemble";
    made.command = group != nullptr ? "plan group" : "plan ensemble";
    if (group != nullptr) {
      made.at = group->now;
      made.summary = summary_of(*group);
    } else {
      made.summary = fmt::format("Chose base models for {}.",
                                 count_of(problem, "queries", "query", "queries"));
    }
    made.problem = std::move(problem);
  }
}

void add_placement(const engine::Engine& engine, std::vector<Decided>& to) {
  const auto decisions = engine.placement_decisions();
  if (decisions.empty()) return;
  const engine::PlacementDecision& newest = decisions.front();
  to.push_back({.id = "placement",
                .kind = "placement",
                .at = newest.at,
                .took = newest.took,
                .summary = fmt::format("Decision {} ({}): {} model{} to move{}.", newest.number,
                                       newest.cause, newest.changes.size(),
                                       newest.changes.size() == 1 ? " was" : "s were",
                                       newest.stayed ? "; it was not worth it" : ""),
                .problem = plan::write_placement_problem(newest.problem),
                .command = "plan placement"});
}

}  // namespace

std::vector<Decided> last_decisions(engine::Engine& engine) {
  std::vector<Decided> all;
  add_pipelines(engine, all);
  add_streams(engine, all);
  add_choices(engine, all);
  add_placement(engine, all);
  return all;
}

Json decisions_json(const std::vector<Decided>& decisions) {
  Json all = Json::array();
  for (const Decided& each : decisions) {
    all.push_back({{"kind", each.kind},
                   {"service", each.service.empty() ? Json(nullptr) : Json(each.service)},
                   {"at_us", each.at ? us_or_null(*each.at) : Json(nullptr)},
                   {"took_ms", each.took ? Json(each.took->millis()) : Json(nullptr)},
                   {"summary", each.summary},
                   {"document", "/v2/live/decisions/" + encode_percent(each.id)},
                   {"replay", fmt::format("fermata {} -", each.command)}});
  }
  return all;
}

}  // namespace fermata::serve
