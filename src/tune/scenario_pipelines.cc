// Pipelines of a recording: which stages ran for how many, and how many items they made.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/algorithm/container.h"
#include "engine/services/pipeline.h"
#include "tune/scenario_maker.h"

namespace fermata::tune {
namespace {

constexpr size_t kMostSizes = 64;  // of numbers of items

}  // namespace

// The stages of services that it reads, itself or through operators.
std::vector<std::string> ScenarioMaker::before(const engine::PipelineOptions& options,
                                               size_t stage) const {
  std::set<std::string> found;
  std::vector<size_t> open = {stage};
  std::set<size_t> seen = {stage};
  while (!open.empty()) {
    const engine::PipelineOptions::Stage& own = options.stages[open.back()];
    open.pop_back();
    std::vector<std::string> reads = own.after;
    for (const auto& [name, from] : own.inputs) reads.push_back(from);
    if (own.when) reads.push_back(own.when->from);
    for (const std::string& from : reads) {
      for (size_t s = 0; s < options.stages.size(); ++s) {
        const engine::PipelineOptions::Stage& other = options.stages[s];
        if (from != other.name && !from.starts_with(other.name + ".")) continue;
        if (!seen.insert(s).second) continue;
        if (other.service.empty()) {
          open.push_back(s);
        } else {
          found.insert(other.name);
        }
      }
    }
  }
  return {found.begin(), found.end()};
}

// How many items the stage after it had of one of its own, by how often.
Json ScenarioMaker::items_made(const std::string& of, const std::string& next) const {
  const auto own = parts_.find(of), after = parts_.find(next);
  if (own == parts_.end() || after == parts_.end()) return 1;
  std::map<uint32_t, uint64_t> counts;
  for (const auto& [request, items] : own->second) {
    const auto made = after->second.find(request);
    if (made == after->second.end() || items == 0) continue;
    ++counts[std::max(1u, (made->second + items / 2) / items)];
  }
  if (counts.empty() || counts.size() > kMostSizes) return 1;
  Json shares = Json::object();
  for (const auto& [items, count] : counts) shares[std::to_string(items)] = count;
  return shares;
}

double ScenarioMaker::share_that_ran(const std::string& before, const std::string& stage) const {
  const auto own = parts_.find(before), after = parts_.find(stage);
  if (own == parts_.end() || own->second.empty()) return 1;
  if (after == parts_.end()) return 0;
  uint64_t ran = 0;
  for (const auto& [request, items] : own->second) ran += after->second.contains(request) ? 1 : 0;
  return static_cast<double>(ran) / static_cast<double>(own->second.size());
}

Json ScenarioMaker::pipeline(const engine::Service& service, Json own) {
  engine::PipelineOptions options = *options_of(service.name)->pipeline;
  if (options.adapter) {
    note(fmt::format("'{}' is replayed without its adapter", service.name));
  }
  Json stages = Json::array();
  std::map<std::string, Json> made;
  std::map<std::string, double> ran;
  bool operators = false;
  for (size_t s = 0; s < options.stages.size(); ++s) {
    const engine::PipelineOptions::Stage& stage = options.stages[s];
    operators = operators || stage.service.empty();
    if (stage.service.empty()) continue;
    const std::string route = engine::stage_route(service.name, stage.name);
    for (const std::string& earlier : before(options, s)) {
      const std::string from = engine::stage_route(service.name, earlier);
      made.emplace(earlier, items_made(from, route));
      const double share = stage.when ? share_that_ran(from, route) : 1;
      ran.emplace(stage.name, share);
    }
  }
  if (operators) note(fmt::format("the operators of '{}' take no time", service.name));
  for (size_t s = 0; s < options.stages.size(); ++s) {
    const engine::PipelineOptions::Stage& stage = options.stages[s];
    if (stage.service.empty()) continue;
    const engine::Service* const member = find(stage.service);
    const bool is_model = member->info == nullptr && options_of(stage.service) == nullptr;
    Json row = {{"name", stage.name}, {"service", is_model ? model(stage.service) : stage.service}};
    if (const auto after = before(options, s); !after.empty()) row["after"] = after;
    if (const auto items = made.find(stage.name); items != made.end()) {
      row["makes"] = items->second;
    }
    if (const auto share = ran.find(stage.name); share != ran.end() && share->second < 1) {
      row["when"] = share->second;
    }
    stages.push_back(std::move(row));
  }
  own["stages"] = std::move(stages);
  return own;
}

}  // namespace fermata::tune
