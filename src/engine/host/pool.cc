#include "engine/host/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "engine/execute/resident_executor.h"
#include "engine/schedule/threaded_scheduler.h"
#include "policy/scheduler.h"

namespace fermata::engine {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kUnlimitedMb = std::numeric_limits<double>::infinity();

bool on_demand(const EngineOptions& options) {
  return options.workers.residency == Residency::kOnDemand;
}

// Whether one decision may take long: of services of several models, and where a policy plans.
bool plans(const EngineOptions& options) {
  return policy::policy_rules(options.policy) == nullptr ||
         std::any_of(
             options.services.begin(), options.services.end(),
             [](const ServiceOptions& service) { return service.variants || service.ensemble; });
}

struct MadeScheduler {
  std::unique_ptr<policy::Scheduler> scheduler;
  ThreadedScheduler* threaded = nullptr;  // the same, where it has threads to start
};

absl::StatusOr<MadeScheduler> make_one(const EngineOptions& options) {
  MadeScheduler made;
  if (options.scheduler_threads == 0) {
    ASSIGN_OR_RETURN(made.scheduler, policy::make_scheduler(options.policy, options.groups));
    return made;
  }
  ASSIGN_OR_RETURN(auto threaded, ThreadedScheduler::make(options.policy, options.scheduler_threads,
                                                          options.groups.rules));
  made.threaded = threaded.get();
  made.scheduler = std::move(threaded);
  return made;
}

}  // namespace

absl::Status check_policy(const EngineOptions& options) { return make_one(options).status(); }

struct Pool::Part {
  uint32_t workers;
  Room room;  // outlives the driver, which gives room back
  Driver driver;

  Part(const EngineOptions& options, Driver::Shared shared, MadeScheduler made,
       std::vector<Driver::NewWorker> own, const Orphan& orphan)
      : workers(static_cast<uint32_t>(own.size())),
        room(on_demand(options) ? kUnlimitedMb : options.workers.least_memory_mb()),
        driver(std::move(shared), std::move(made.scheduler), options.latency_quantile,
               std::move(own), orphan) {
    if (made.threaded != nullptr) made.threaded->start([this] { driver.wake(); });
  }
};

absl::StatusOr<std::unique_ptr<Pool>> Pool::make(
    const EngineOptions& options, std::span<const std::unique_ptr<ExecutorFactory>> executors,
    uint32_t subclusters, Orphan orphan) {
  FERMATA_CHECK(1 <= subclusters && subclusters <= options.workers.count());
  std::vector<std::vector<Driver::NewWorker>> dealt(subclusters);
  uint32_t next = 0;
  for (uint32_t type = 0; type < options.workers.types.size(); ++type) {
    const WorkerType& workers = options.workers.types[type];
    for (uint32_t i = 0; i < workers.count; ++i) {
      Driver::NewWorker worker{executors[type]->make(), type};
      if (on_demand(options) && std::isfinite(workers.memory_mb)) {
        worker.executor = make_resident_executor(std::move(worker.executor), options.workers, type);
        worker.memory_bytes = static_cast<int64_t>(workers.memory_mb * kMebibyte);
      }
      dealt[next++ % subclusters].push_back(std::move(worker));
    }
  }
  // Workers that hold different models are of different types for their scheduler.
  const bool apart = on_demand(options) && options.workers.count() <= policy::kMostWorkerTypes &&
                     options.loads_ahead;
  std::unique_ptr<Pool> pool(new Pool());
  uint32_t first = 0;
  for (auto& workers : dealt) {
    ASSIGN_OR_RETURN(MadeScheduler made, make_one(options));
    if (options.listener) made.scheduler = options.listener(std::move(made.scheduler));
    Driver::Shared shared{pool->ids_, first, {}, {}, options.workers.run_limit};
    shared.most_bytes = options.workers.batch_bytes;
    shared.observer = options.observer.get();
    shared.guests = made.threaded == nullptr && !plans(options);
    if (options.workers.least) shared.serving = *options.workers.least;
    for (Driver::NewWorker& worker : workers) {  // which are in the order of their types
      if (shared.types.empty() || shared.types.back() != worker.type || apart) {
        shared.types.push_back(worker.type);
        shared.type_names.push_back(options.workers.types[worker.type].name);
      }
      worker.type = static_cast<uint32_t>(shared.types.size() - 1);
    }
    first += static_cast<uint32_t>(workers.size());
    pool->parts_.push_back(std::make_unique<Part>(options, std::move(shared), std::move(made),
                                                  std::move(workers), orphan));
  }
  return pool;
}

Pool::~Pool() = default;

void Pool::submit(uint32_t subcluster, std::shared_ptr<Job> job) {
  parts_[subcluster]->driver.submit(std::move(job));
}

void Pool::learned(uint32_t subcluster, std::shared_ptr<Job> job,
                   std::vector<policy::Estimate> by_item) {
  parts_[subcluster]->driver.learned(std::move(job), std::move(by_item));
}

std::vector<policy::Problem> Pool::last_problems() const {
  std::vector<policy::Problem> problems;
  for (const auto& part : parts_) {
    for (auto& problem : part->driver.last_problems()) problems.push_back(std::move(problem));
  }
  return problems;
}

void Pool::set_rules(const policy::Rules& rules) {
  for (const auto& part : parts_) part->driver.set_rules(rules);
}

// A job may be on its way from one scheduler to another; the others forget what never came.
void Pool::learned(JobId id, const std::vector<policy::Estimate>& by_item) {
  for (const auto& part : parts_) part->driver.learned(id, by_item);
}

void Pool::cancel(JobId id) {
  for (const auto& part : parts_) part->driver.cancel(id);
}

absl::Status Pool::load(uint32_t subcluster, const std::shared_ptr<const Variant>& variant,
                        Duration slo, Duration patience) {
  Part& part = *parts_.at(subcluster);
  const Memory& memory = variant->memory;
  if (!part.room.take(variant->id, memory, patience)) {
    return error(absl::StatusCode::kResourceExhausted,
                 "no room: it needs {:.0f} MiB of each worker and {:.0f} MiB while it runs, and "
                 "{:.0f} of {:.0f} MiB are in use",
                 memory.static_mb, memory.dynamic_mb, part.room.used_mb(), part.room.limit_mb());
  }
  if (absl::Status loaded = part.driver.load(variant); !loaded.ok()) {
    part.room.left(variant->id);
    return loaded;
  }
  part.driver.add(variant, slo);
  return absl::OkStatus();
}

void Pool::retire(uint32_t subcluster, VariantId id, bool refuse_waiting) {
  Part& part = *parts_.at(subcluster);
  part.room.leaving(id);
  part.driver.retire(id, refuse_waiting, [&part, id] { part.room.left(id); });
}

void Pool::load_ahead(uint32_t worker, std::shared_ptr<const Variant> variant,
                      absl::AnyInvocable<void(absl::Status)> done) {
  FERMATA_CHECK(parts_.size() == 1);
  parts_.front()->driver.load_ahead(WorkerId(worker), std::move(variant), std::move(done));
}

void Pool::let_go(uint32_t worker, std::shared_ptr<const Variant> variant) {
  parts_.front()->driver.let_go(WorkerId(worker), std::move(variant));
}

uint32_t Pool::set_workers(uint32_t count) {
  FERMATA_CHECK(parts_.size() == 1);
  return parts_.front()->driver.set_workers(std::max(count, 1u));
}

void Pool::close() {
  for (const auto& part : parts_) part->room.close();
}

void Pool::settle() {
  for (const auto& part : parts_) part->driver.settle();
}

std::vector<WorkerStatistics> Pool::worker_statistics() const {
  std::vector<WorkerStatistics> all;
  for (const auto& part : parts_) {
    const auto some = part->driver.worker_statistics();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<SubclusterStatistics> Pool::subcluster_statistics() const {
  std::vector<SubclusterStatistics> all;
  for (const auto& part : parts_) {
    all.push_back({part->workers, part->room.used_mb(), part->room.limit_mb()});
  }
  return all;
}

Duration Pool::control_delay() const {
  Duration longest;
  for (const auto& part : parts_) longest = std::max(longest, part->driver.control_delay());
  return longest;
}

uint64_t Pool::batch_keys() const {
  uint64_t sum = 0;
  for (const auto& part : parts_) sum += part->driver.batch_keys();
  return sum;
}

bool Pool::overdue() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->driver.overdue(); });
}

}  // namespace fermata::engine
