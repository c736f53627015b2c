#include "simulate/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "estimate/subset.h"

namespace fermata::simulate {
namespace {

constexpr double kMebibyte = 1 << 20;

}  // namespace

bool has_services(const std::vector<SimulatedVariant>& members) {
  return absl::c_any_of(members, [](const auto& m) { return !m.service_name.empty(); });
}

int64_t SimulatedVariant::memory_bytes() const {
  return static_cast<int64_t>(memory_mb * kMebibyte);
}

std::string SimulatedEnsemble::subset_name(plan::Subset subset) const {
  std::vector<std::string> names;
  for (const SimulatedVariant& model : models) names.push_back(model.name);
  return estimate::name(subset, names);
}

std::string_view Scenario::missing_in(const policy::Scheduler& scheduler) const {
  // The tree serves those that are made of services, whatever the scheduler.
  const auto of_variants = [](const auto& a) { return !has_services(a.variants); };
  const auto of_models = [](const auto& e) { return !has_services(e.models); };
  if (absl::c_any_of(variants, of_variants) && !scheduler.serves(policy::Kind::kVariants)) {
    return "serves applications";
  }
  if (absl::c_any_of(ensembles, of_models) && !scheduler.serves(policy::Kind::kEnsemble)) {
    return "serves ensembles";
  }
  if (workers.front().least && !scheduler.workers_may_leave()) return "lets workers come and go";
  return {};
}

uint32_t Scenario::worker_count() const {
  uint32_t n = 0;
  for (const WorkerGroup& group : workers) n += group.count;
  return n;
}

double Scenario::rate_of(double share) const {
  double shares = 0;
  for (const SimulatedModel& m : models) shares += m.share;
  for (const SimulatedVariants& a : variants) shares += a.share;
  for (const SimulatedEnsemble& e : ensembles) shares += e.share;
  for (const SimulatedPipeline& p : pipelines) shares += p.share;
  return rate_rps * share / shares;
}

// Weights of all models stay; what a run needs besides is there once, for the one batch that
// a worker runs (Symphony eq. 6).
double Scenario::models_mb() const {
  double weights = 0, largest_run = 0;
  for (const SimulatedModel& m : models) {
    weights += m.static_mb;
    largest_run = std::max(largest_run, m.dynamic_mb);
  }
  return weights + largest_run;
}

int64_t Scenario::bytes_for_variants(const WorkerGroup& group) const {
  if (group.memory_mb == 0) return policy::kUnlimitedMemory;
  return static_cast<int64_t>((group.memory_mb - models_mb()) * kMebibyte);
}

std::string Scenario::memory_violation() const {
  const double need = models_mb();
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerGroup& group = workers[i];
    if (group.memory_mb == 0) continue;
    if (need > group.memory_mb) {
      return fmt::format("memory_mb of workers {} is {}, its models need {}", i, group.memory_mb,
                         need);
    }
    for (const SimulatedVariants& a : variants) {
      for (const SimulatedVariant& v : a.variants) {
        if (v.memory_bytes() <= bytes_for_variants(group)) continue;
        return fmt::format("memory_mb of workers {} is {}, its models need {}, variant '{}' {}", i,
                           group.memory_mb, need, v.name, v.memory_mb);
      }
    }
  }
  return {};
}

}  // namespace fermata::simulate
