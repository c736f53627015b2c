#include "engine/host/replicas.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/confine/machine.h"
#include "engine/host/door.h"
#include "policy/scheduler.h"

namespace fermata::engine {
// Of a stage's variant.
struct Replicas::Cell {
  std::string service, model;
  uint32_t threads, most;
  bool wanted = false;  // by the plan
  Door door;            // for jobs
  std::atomic<uint32_t> serving{0};
  std::set<VariantId> loaded;
  std::vector<std::vector<size_t>> processors;  // by replica that serves: places in processors_
  Driver driver;

  Cell(const std::string& of, const AdapterOptions::Variant& variant, Driver::Shared shared,
       const EngineOptions& options, std::vector<Driver::NewWorker> workers,
       const Pool::Orphan& orphan)
      : service(of),
        model(variant.model),
        threads(variant.threads),
        most(variant.most),
        driver(std::move(shared), *policy::make_scheduler(options.policy, options.groups),
               options.latency_quantile, std::move(workers), orphan) {}
};

Replicas::Replicas(const EngineOptions& options,
                   std::span<const std::unique_ptr<ExecutorFactory>> executors,
                   std::atomic<uint64_t>& ids, const Pool::Orphan& orphan)
    : processors_(own_processors()), users_(processors_.size()) {
  uint32_t first = options.workers.count();
  for (const ServiceOptions& service : options.services) {
    if (!service.pipeline || !service.pipeline->adapter) continue;
    for (const AdapterOptions::Variant& variant : service.pipeline->adapter->variants) {
      std::vector<Driver::NewWorker> workers(variant.most);
      for (Driver::NewWorker& worker : workers) worker.executor = executors[variant.type]->make();
      Driver::Shared shared{.ids = ids,
                            .first_worker = first,
                            .types = {variant.type},
                            .type_names = {options.workers.types[variant.type].name},
                            .run_limit = options.workers.run_limit,
                            .most_bytes = options.workers.batch_bytes,
                            .serving = 0};
      first += variant.most;
      cells_[variant.route] = std::make_unique<Cell>(service.name, variant, std::move(shared),
                                                     options, std::move(workers), orphan);
    }
  }
}

Replicas::~Replicas() = default;

bool Replicas::submit(const std::shared_ptr<Job>& job) {
  const auto found = cells_.find(job->route().service);
  if (found == cells_.end()) return false;
  Cell& cell = *found->second;
  if (!cell.door.enter()) return false;
  cell.driver.submit(job);
  cell.door.leave();
  return true;
}

void Replicas::cancel(JobId id) {
  for (const auto& [route, cell] : cells_) cell->driver.cancel(id);
}

absl::Status Replicas::load(std::span<const std::shared_ptr<const Variant>> versions) {
  if (versions.empty()) return absl::OkStatus();
  const std::shared_ptr<const Variant>& variant = versions.back();
  const std::lock_guard lock(mutex_);
  for (const auto& [route, cell] : cells_) {
    if (cell->model != variant->model) continue;
    if (absl::Status loaded = cell->driver.load(variant); !loaded.ok()) {
      forget(*variant, true);
      return loaded;
    }
    cell->driver.add(variant, Duration::infinite());
    cell->loaded.insert(variant->id);
  }
  return absl::OkStatus();
}

void Replicas::retire(const Variant& variant, bool refuse_waiting) {
  const std::lock_guard lock(mutex_);
  forget(variant, refuse_waiting);
}

void Replicas::forget(const Variant& variant, bool refuse_waiting) {
  for (const auto& [route, cell] : cells_) {
    if (cell->loaded.erase(variant.id) == 0) continue;
    cell->driver.retire(variant.id, refuse_waiting, [] {});
  }
}

void Replicas::resize(Cell& cell, uint32_t replicas) {
  replicas = std::min(replicas, cell.most);
  while (cell.processors.size() > replicas) {
    for (const size_t p : cell.processors.back()) --users_[p];
    cell.processors.pop_back();
  }
  while (cell.processors.size() < replicas && cell.threads <= processors_.size()) {
    std::vector<size_t> order(processors_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    absl::c_stable_sort(order, [this](size_t a, size_t b) { return users_[a] < users_[b]; });
    order.resize(cell.threads);
    std::vector<uint32_t> chosen;
    for (const size_t p : order) {
      ++users_[p];
      chosen.push_back(processors_[p]);
    }
    cell.driver.pin(static_cast<uint32_t>(cell.processors.size()), chosen);
    cell.processors.push_back(std::move(order));
  }
  cell.serving = cell.driver.set_workers(replicas);
}

void Replicas::follow(const std::string& service, const Plan& plan,
                      absl::FunctionRef<void()> moved) {
  const std::lock_guard lock(mutex_);
  const auto wanted = [&plan](const std::string& route) {
    const auto at = plan.find(route);
    return at == plan.end() ? Wanted{} : at->second;
  };
  for (const auto& [route, cell] : cells_) {
    const Wanted own = wanted(route);
    if (cell->service != service || own.replicas == 0) continue;
    cell->wanted = true;
    cell->driver.limit_batches(std::max(own.batch, 1u));
    if (own.replicas > cell->serving) resize(*cell, own.replicas);
    if (cell->serving > 0) cell->door.open();
  }
  moved();
  for (const auto& [route, cell] : cells_) {
    if (cell->service != service) continue;
    const uint32_t replicas = wanted(route).replicas;
    if (replicas == 0) {
      cell->wanted = false;  // what is on its way to it still finds it open
    } else if (replicas < cell->serving) {
      resize(*cell, replicas);
    }
  }
}

void Replicas::sweep() {
  const std::lock_guard lock(mutex_);
  for (const auto& [route, cell] : cells_) {
    if (cell->wanted || cell->serving == 0) continue;
    if (cell->door.close_if([&cell = cell] { return cell->driver.idle(); })) resize(*cell, 0);
  }
}

std::map<std::string, uint32_t> Replicas::serving() const {
  std::map<std::string, uint32_t> serving;
  for (const auto& [route, cell] : cells_) serving[route] = cell->serving;
  return serving;
}

bool Replicas::overdue() const {
  return absl::c_any_of(cells_, [](const auto& cell) { return cell.second->driver.overdue(); });
}

void Replicas::settle() {
  for (const auto& [route, cell] : cells_) cell->driver.settle();
}

}  // namespace fermata::engine
