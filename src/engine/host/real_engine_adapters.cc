// Pipelines that are planned anew as their load changes.
#include "base/status.h"
#include "engine/host/real_engine.h"

namespace fermata::engine {
namespace {

// Of all versions of a service.
void add_version(const ServiceStatistics& version, ServiceStatistics& to) {
  const auto add = [](const DurationCount& from, DurationCount& sum) {
    sum.count += from.count;
    sum.total += from.total;
  };
  to.inference_count += version.inference_count;
  add(version.success, to.success);
  for (const auto& [items, batches] : version.batches) {
    BatchSizeStatistics& sum = to.batches[items];
    add(batches.compute_input, sum.compute_input);
    add(batches.compute_infer, sum.compute_infer);
    add(batches.compute_output, sum.compute_output);
  }
}

}  // namespace

absl::Status RealEngine::make_adapters() {
  for (const ServiceOptions& service : options_.services) {
    if (!service.pipeline || !service.pipeline->adapter) continue;
    ASSIGN_OR_RETURN(auto adapter, Adapter::make(service, options_.workers));
    adapters_.push_back(std::move(adapter));
  }
  if (adapters_.empty()) return absl::OkStatus();
  start_adapters();
  second_timer_ = std::make_unique<Periodic>(Duration::seconds(1), [this] { end_second(); });
  return absl::OkStatus();
}

// Dedicated replicas serve from the start.
void RealEngine::start_adapters() {
  const std::lock_guard lock(adapting_);
  for (const auto& adapter : adapters_) {
    const auto route = routes_.read()->find(adapter->service(), "");
    if (adapter->dedicated() && route.ok()) adapt(*adapter, (*route)->pipeline, {});
  }
}

void RealEngine::replan(const std::string& model) {
  const std::lock_guard lock(adapting_);
  for (const auto& adapter : adapters_) {
    const auto route = routes_.read()->find(adapter->service(), "");
    if (!adapter->dedicated() || !adapter->runs(model) || !route.ok()) continue;
    adapt(*adapter, (*route)->pipeline, measured());
  }
}

std::map<std::string, ServiceStatistics> RealEngine::measured() {
  std::map<std::string, ServiceStatistics> rows;
  const std::lock_guard registered(mutex_);
  for (const ServiceStatistics& row : registry_.statistics()) add_version(row, rows[row.service]);
  return rows;
}

void RealEngine::end_second() {
  const std::lock_guard lock(adapting_);
  replicas_->sweep();
  std::map<std::string, ServiceStatistics> rows;
  for (const auto& adapter : adapters_) {
    const std::string& service = adapter->service();
    const auto route = routes_.read()->find(service, "");
    if (!route.ok()) continue;  // it is not served now
    const uint64_t asked = (*route)->gate->asked.load();
    const uint64_t before = std::exchange(asked_[service], asked);
    const bool is_due = adapter->second(static_cast<double>(asked - before));
    if (!is_due && !adapter->is_new()) continue;
    if (rows.empty()) rows = measured();
    adapt(*adapter, (*route)->pipeline, rows);
  }
}

void RealEngine::adapt(Adapter& adapter, const std::shared_ptr<const Pipeline>& pipeline,
                       const std::map<std::string, ServiceStatistics>& rows) {
  adapter.decide(*pipeline, {trees_.runs(pipeline), &rows});
  const auto plan = [&] { trees_.plan(adapter.service(), adapter.variants()); };
  if (!adapter.dedicated()) return plan();
  Replicas::Plan wanted;
  for (const PipelineStatistics::Stage& stage : adapter.statistics().stages) {
    wanted[stage_route(stage_route(adapter.service(), stage.name), stage.variant)] = {
        static_cast<uint32_t>(std::min(stage.replicas, plan::PipelineProblem::kMostReplicas)),
        stage.batch};
  }
  replicas_->follow(adapter.service(), wanted, plan);
}

void RealEngine::queue(const std::shared_ptr<Job>& job) {
  const Route& to = job->route();
  if (to.pipeline != nullptr) return trees_.submit(job);
  if (!to.dedicated) return pool_->submit(to.subcluster, job);
  if (replicas_->submit(job)) return;
  job->leave_queue();
  job->end(Outcome::kUnavailable,
           error(absl::StatusCode::kUnavailable,
                 "'{}' runs on dedicated replicas of pipelines alone, and none takes this request",
                 to.service),
           {});
}

uint32_t RealEngine::set_workers(uint32_t count) {
  const std::lock_guard lock(changing_);
  if (!options_.workers.least) return options_.workers.count();
  return pool_->set_workers(count);
}

// What the plans of all adapters need that share the workers.
uint32_t RealEngine::planned_workers() const {
  const std::lock_guard lock(adapting_);
  double cores = 0;
  for (const auto& adapter : adapters_) {
    if (!adapter->dedicated()) cores += adapter->statistics().cost;
  }
  return static_cast<uint32_t>(
      std::min(cores / options_.workers.types.front().threads + 0.999, 1e6));
}

std::vector<AdapterDecision> RealEngine::adapter_decisions() const {
  const std::lock_guard lock(adapting_);
  std::vector<AdapterDecision> all;
  for (const auto& adapter : adapters_) {
    all.insert(all.end(), adapter->last().begin(), adapter->last().end());
  }
  return all;
}

}  // namespace fermata::engine
