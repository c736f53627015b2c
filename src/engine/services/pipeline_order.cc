// Which services and stages a service is made of, and in which order.
#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/topological.h"
#include "engine/composite/variants_service.h"
#include "engine/schedule/job.h"
#include "engine/schedule/key_table.h"
#include "engine/services/pipeline.h"

namespace fermata::engine {

using Source = Pipeline::Source;

namespace {

std::shared_ptr<const LatencyTable> alone(const Route& route, double quantile) {
  if (route.composite == nullptr) return believed_latency(*route.variant, quantile, 1);
  std::shared_ptr<const LatencyTable> fastest;
  for (const auto& variant : route.composite->variants) {
    auto own = believed_latency(*variant, quantile, 1);
    if (fastest == nullptr || (*own)(1) < (*fastest)(1)) fastest = std::move(own);
  }
  return fastest;
}

// Answers of different variants may not fit together.
bool has_free_outputs(const Signature& signature) {
  return absl::c_any_of(signature.outputs, [](const TensorSpec& output) {
    return absl::c_linear_search(output.dims, -1);
  });
}

}  // namespace

Pipeline::Stage stage_of(const std::string& service, const std::string& name, const Route& member,
                         double quantile) {
  Pipeline::Stage stage{.name = name, .route = stage_route(service, name)};
  stage.member = member.variant;
  stage.is_model = member.pipeline == nullptr && member.composite == nullptr;
  stage.batches = member.variant->signature.batches;
  stage.part_items = member.part_items;
  stage.pipeline = member.pipeline;
  if (stage.pipeline == nullptr) stage.latency = alone(member, quantile);
  if (stage.pipeline != nullptr || member.variants == nullptr) return stage;
  for (size_t v = 0; v < member.variants->variants.size(); ++v) {
    const auto& variant = member.variants->variants[v];
    stage.options.push_back({.name = variant->model,
                             .route = stage_route(stage.route, variant->model),
                             .accuracy = member.variants->info.variants[v].accuracy,
                             .variant = variant,
                             .latency = believed_latency(*variant, quantile, 1)});
    stage.uniform = stage.uniform || has_free_outputs(variant->signature);
  }
  return stage;
}

Source source_of(const std::string& text, const std::vector<PipelineOptions::Stage>& stages) {
  Source found{.tensor = text};
  size_t longest = 0;
  for (uint32_t s = 0; s < stages.size(); ++s) {
    absl::string_view rest = text;
    const std::string& name = stages[s].name;
    if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumePrefix(&rest, ".")) continue;
    if (rest.empty() || name.size() < longest) continue;
    longest = name.size();
    found = {s, std::string(rest)};
  }
  return found;
}

std::vector<std::string> members_of(const ServiceOptions& service) {
  std::vector<std::string> members;
  if (service.pipeline) {
    for (const auto& stage : service.pipeline->stages) members.push_back(stage.service);
  } else if (service.variants && !service.variants->services.empty()) {
    members = service.variants->models;
  } else if (service.ensemble && !service.ensemble->services.empty()) {
    members = service.ensemble->models;
  }
  return members;
}

absl::Status order_stages(const std::string& service, PipelineOptions& options) {
  auto& stages = options.stages;
  std::map<std::string, uint32_t> places;
  for (const auto& stage : stages) {
    if (!places.emplace(stage.name, places.size()).second) {
      return invalid("service '{}': two stages are named '{}'", service, stage.name);
    }
  }
  std::vector<std::vector<uint32_t>> before(stages.size());
  for (uint32_t s = 0; s < stages.size(); ++s) {
    auto& after = stages[s].after;
    if (after.empty() && stages[s].inputs.empty() && s > 0) after = {stages[s - 1].name};
    for (const auto& [name, text] : stages[s].inputs) {
      const Source from = source_of(text, stages);
      if (from.stage != Source::kRequest) after.push_back(stages[from.stage].name);
    }
    if (stages[s].when) {
      const Source from = source_of(stages[s].when->from, stages);
      if (from.stage != Source::kRequest) after.push_back(stages[from.stage].name);
    }
    absl::c_sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
    for (const std::string& name : after) {
      const auto at = places.find(name);
      if (at == places.end()) {
        return invalid("service '{}': stage '{}' is after '{}', which is none of its stages",
                       service, stages[s].name, name);
      }
      before[s].push_back(at->second);
    }
  }
  const TopologicalOrder found = topological_order(before);
  if (!found.cycle.empty()) {
    return invalid("service '{}': stage '{}' comes after itself", service,
                   stages[found.cycle[0]].name);
  }
  std::vector<PipelineOptions::Stage> ordered;
  for (const uint32_t s : found.order) ordered.push_back(std::move(stages[s]));
  stages = std::move(ordered);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const ServiceOptions*>> composites_in_order(
    const std::vector<ServiceOptions>& services) {
  std::vector<const ServiceOptions*> composites;
  std::map<std::string, uint32_t> places;
  for (const ServiceOptions& service : services) {
    if (members_of(service).empty()) continue;
    places[service.name] = static_cast<uint32_t>(composites.size());
    composites.push_back(&service);
  }
  std::vector<std::vector<uint32_t>> members(composites.size());
  for (size_t c = 0; c < composites.size(); ++c) {
    for (const std::string& member : members_of(*composites[c])) {
      const auto at = places.find(member);
      if (at != places.end()) members[c].push_back(at->second);
    }
  }
  const TopologicalOrder found = topological_order(members);
  if (!found.cycle.empty()) {
    return invalid("service '{}' contains itself", composites[found.cycle[0]]->name);
  }
  std::vector<const ServiceOptions*> ordered;
  for (const uint32_t c : found.order) ordered.push_back(composites[c]);
  return ordered;
}

std::string stage_route(const std::string& service, const std::string& stage) {
  return service + "/" + stage;
}

// Of one item, in whichever variant is the fastest.
static Duration fastest(const Pipeline::Stage& stage) {
  if (stage.pipeline != nullptr) return fastest_path(*stage.pipeline);
  Duration least = stage.latency == nullptr ? Duration() : (*stage.latency)(1);
  for (const Pipeline::Option& option : stage.options)
    least = std::min(least, (*option.latency)(1));
  return least;
}

Duration fastest_path(const Pipeline& pipeline) {
  Duration longest, shortest = Duration::infinite();
  std::vector<Duration> ends;
  for (const Pipeline::Stage& stage : pipeline.stages) {
    Duration end;
    for (const uint32_t before : stage.after) end = std::max(end, ends[before]);
    ends.push_back(end + fastest(stage));
    longest = std::max(longest, ends.back());
    shortest = std::min(shortest, ends.back());
  }
  return pipeline.choice != nullptr ? shortest : longest;
}

// A model that gets and gives what it is asked for at a time.
static bool is_plain(const Pipeline::Stage& stage) {
  return stage.is_model && stage.options.empty() && !stage.one_by_one && stage.fan_out.empty();
}

static uint32_t readers_of(const Pipeline& pipeline, uint32_t of) {
  const Pipeline::Stage& stage = pipeline.stages[of];
  const auto is_it = [of](const Source& from) { return from.stage == of; };
  const auto is_text = [&stage](const std::string& output) {
    return stage.member->signature.output(output)->datatype == DataType::kBytes;
  };
  const auto is_answer = [&is_it](const auto& output) {
    return absl::c_any_of(output.from, is_it);
  };
  if (!is_plain(stage) || absl::c_any_of(stage.outputs, is_text)) return 0;
  if (absl::c_any_of(pipeline.outputs, is_answer)) return 0;
  uint32_t readers = 0;
  for (const Pipeline::Stage& other : pipeline.stages) {
    if (other.when && is_it(other.when->from)) return 0;
    const bool reads =
        absl::c_any_of(other.inputs, [&](const auto& input) { return is_it(input.from); });
    if (reads && (!other.is_model || !other.options.empty() || other.one_by_one)) return 0;
    readers += reads ? 1 : 0;
  }
  return readers;
}

void count_readers(Pipeline& pipeline) {
  for (uint32_t s = 0; s < pipeline.stages.size(); ++s) {
    pipeline.stages[s].readers = readers_of(pipeline, s);
  }
}

}  // namespace fermata::engine
