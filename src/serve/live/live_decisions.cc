#include "serve/live/live_decisions.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <variant>

#include "engine/services/adapter.h"
#include "plan/ensemble/ensemble_document.h"
#include "plan/ensemble/pool_document.h"
#include "plan/pipeline/pipeline_document.h"
#include "plan/placement/placement_document.h"
#include "plan/streams/stream_document.h"
#include "plan/variants/group_document.h"
#include "serve/http/http_routes.h"
#include "serve/live/live_json.h"
#include "serve/live/live_sentences.h"

namespace fermata::serve {
namespace {

void add_pipelines(const engine::Engine& engine, std::vector<Decided>& to) {
  std::set<std::string> seen;
  for (const engine::AdapterDecision& each : engine.adapter_decisions()) {
    if (!seen.insert(each.service).second) continue;
    to.push_back({.id = "pipeline:" + each.service,
                  .kind = "pipeline",
                  .service = each.service,
                  .at = each.at,
                  .took = each.took,
                  .summary = sentence(each),
                  .problem = plan::write_pipeline_problem(each.decision.problem),
                  .command = "plan pipeline"});
  }
}

void add_streams(const engine::Engine& engine, std::vector<Decided>& to) {
  const auto last = engine.last_stream_decision();
  if (!last) return;
  to.push_back({.id = "streams",
                .kind = "streams",
                .at = last->at,
                .took = last->took,
                .summary = sentence(*last),
                .problem = plan::write_stream_problem(last->problem),
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
    if (group != nullptr) made.at = group->now;
    made.summary = sentence(each);
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
                .summary = sentence(newest),
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
