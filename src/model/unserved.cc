#include "model/unserved.h"

#include <fmt/format.h>

#include "absl/algorithm/container.h"
#include "model/dynamic_network.h"

namespace fermata {
namespace {

void add_batching(const inference::ModelDynamicBatching& batching,
                  std::vector<std::string>& notes) {
  if (batching.priority_levels() > 0 || batching.priority_queue_policy_size() > 0) {
    notes.emplace_back("dynamic_batching.priority_levels: requests go by their deadlines");
  }
  if (batching.max_queue_delay_microseconds() > 0) {
    notes.emplace_back(
        "dynamic_batching.max_queue_delay_microseconds: the policy decides how long a batch waits");
  }
  if (batching.preferred_batch_size_size() > 0) {
    notes.emplace_back("dynamic_batching.preferred_batch_size: the policy decides");
  }
  if (batching.preserve_ordering()) {
    notes.emplace_back("dynamic_batching.preserve_ordering: requests go by their deadlines");
  }
  const auto& queue = batching.default_queue_policy();
  if (queue.default_timeout_microseconds() > 0 &&
      queue.timeout_action() == inference::ModelQueuePolicy::DELAY) {
    notes.emplace_back(
        "dynamic_batching.default_queue_policy.timeout_action DELAY: requests without a timeout "
        "have no deadline");
  }
}

void add_groups(const inference::ModelConfig& config, std::string_view provider,
                std::vector<std::string>& notes) {
  const bool gpu = absl::c_any_of(config.instance_group(), [](const auto& group) {
    return group.kind() == inference::ModelInstanceGroup::KIND_GPU;
  });
  if (gpu && provider == "cpu") {
    notes.emplace_back("instance_group: KIND_GPU, but workers.provider is cpu: it runs there");
  }
  if (absl::c_any_of(config.instance_group(), [](const auto& g) { return g.count() > 1; })) {
    notes.emplace_back("instance_group.count: every worker runs every model (workers.count)");
  }
}

// Zeros are what its shapes are measured with anyway.
bool wants_warmup_data(const inference::ModelConfig& config) {
  for (const auto& warmup : config.model_warmup()) {
    for (const auto& [name, input] : warmup.inputs()) {
      if (!input.zero_data()) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> unserved_settings(const inference::ModelConfig& config,
                                           std::string_view provider) {
  std::vector<std::string> notes;
  if (config.has_dynamic_batching()) add_batching(config.dynamic_batching(), notes);
  add_groups(config, provider, notes);
  if (config.response_cache().enable()) {
    notes.emplace_back("response_cache: every request runs");
  }
  if (wants_warmup_data(config)) {
    notes.emplace_back("model_warmup: only its shapes are used, to measure the model with zeros");
  }
  if (config.optimization().has_execution_accelerators()) {
    notes.emplace_back("optimization.execution_accelerators: workers.provider says what runs it");
  }
  if (config.optimization().has_graph()) {
    notes.emplace_back("optimization.graph: ONNX Runtime optimises as much as it can");
  }
  for (const auto& [name, value] : config.parameters()) {
    if (absl::c_linear_search(kDynamicParameters, name)) continue;
    notes.push_back(fmt::format("parameters '{}': not used", name));
  }
  for (const auto& input : config.input()) {
    if (!input.optional()) continue;
    notes.push_back(
        fmt::format("input '{}': optional: ONNX Runtime needs it in every request", input.name()));
  }
  return notes;
}

}  // namespace fermata
