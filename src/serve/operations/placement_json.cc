#include "serve/operations/placement_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/placement/placement_document.h"

namespace fermata::serve {
namespace {

Json subclusters_json(const engine::EngineSnapshot& snapshot) {
  Json rows = Json::array();
  uint32_t first = 0;
  for (const engine::SubclusterStatistics& each : snapshot.subclusters) {
    Json row = {{"workers", Json::array()}};
    for (uint32_t i = 0; i < each.workers; ++i) row["workers"].push_back(first + i);
    first += each.workers;
    row["memory_mb"] = std::isfinite(each.memory_mb) ? Json(each.memory_mb) : Json(nullptr);
    row["used_mb"] = each.used_mb;
    row["models"] = Json::array();
    rows.push_back(std::move(row));
  }
  for (const auto& [model, subcluster] : snapshot.placement.subcluster_of) {
    rows.at(subcluster)["models"].push_back(model);
  }
  return rows;
}

Json change_json(const engine::PlacementChange& change) {
  Json row = {{"model", change.model},
              {"from", change.from ? Json(*change.from) : Json(nullptr)},
              {"to", change.to},
              {"result", std::string(engine::name(change.result))}};
  if (!change.reason.empty()) row["reason"] = change.reason;
  return row;
}

Json decision_json(const engine::PlacementDecision& decision) {
  Json row = {{"number", decision.number},
              {"cause", decision.cause},
              {"problem", plan::write_placement_problem(decision.problem)},
              {"answer", plan::write_placement(decision.problem, decision.answer)},
              {"stayed", decision.stayed},
              {"changes", Json::array()}};
  for (const auto& change : decision.changes) row["changes"].push_back(change_json(change));
  return row;
}

}  // namespace

Json placement_json(const engine::EngineSnapshot& snapshot,
                    const std::vector<engine::PlacementDecision>& decisions) {
  Json body = {{"subclusters", subclusters_json(snapshot)}, {"decisions", Json::array()}};
  for (const auto& decision : decisions) body["decisions"].push_back(decision_json(decision));
  return body;
}

}  // namespace fermata::serve
