#include "engine/pool.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "engine/resident_executor.h"
#include "engine/threaded_scheduler.h"
#include "policy/scheduler.h"

namespace fermata::engine {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kUnlimitedMb = std::numeric_limits<double>::infinity();

bool on_demand(const EngineOptions& options) {
  return options.workers.residency == Residency::kOnDemand;
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
  ASSIGN_OR_RETURN(auto threaded,
                   ThreadedScheduler::make(options.policy, options.scheduler_threads));
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
       std::vector<std::unique_ptr<Executor>> executors, const Orphan& orphan)
      : workers(static_cast<uint32_t>(executors.size())),
        room(on_demand(options) ? kUnlimitedMb : options.workers.memory_mb),
        driver(shared, std::move(made.scheduler), options.latency_quantile, std::move(executors),
               orphan) {
    if (made.threaded != nullptr) made.threaded->start([this] { driver.wake(); });
  }
};

absl::StatusOr<std::unique_ptr<Pool>> Pool::make(const EngineOptions& options,
                                                 ExecutorFactory& executors, uint32_t subclusters,
                                                 Orphan orphan) {
  const uint32_t count = options.workers.count;
  FERMATA_CHECK(1 <= subclusters && subclusters <= count);
  std::unique_ptr<Pool> pool(new Pool());
  uint32_t first = 0;
  for (uint32_t i = 0; i < subclusters; ++i) {
    ASSIGN_OR_RETURN(MadeScheduler made, make_one(options));
    std::vector<std::unique_ptr<Executor>> workers(count / subclusters + (i < count % subclusters));
    for (auto& worker : workers) {
      worker = executors.make();
      if (on_demand(options)) worker = make_resident_executor(std::move(worker), options.workers);
    }
    const int64_t memory_bytes = on_demand(options)
                                     ? static_cast<int64_t>(options.workers.memory_mb * kMebibyte)
                                     : policy::kUnlimitedMemory;
    const Driver::Shared shared{pool->ids_, first, memory_bytes};
    first += static_cast<uint32_t>(workers.size());
    pool->parts_.push_back(
        std::make_unique<Part>(options, shared, std::move(made), std::move(workers), orphan));
  }
  return pool;
}

Pool::~Pool() = default;

void Pool::submit(uint32_t subcluster, std::shared_ptr<Job> job) {
  parts_[subcluster]->driver.submit(std::move(job));
}

void Pool::learned(uint32_t subcluster, std::shared_ptr<Job> job,
                   std::vector<policy::Evidence> by_item) {
  parts_[subcluster]->driver.learned(std::move(job), std::move(by_item));
}

void Pool::scored(uint32_t subcluster, std::shared_ptr<Job> job,
                  std::vector<policy::Difficulty> by_item) {
  parts_[subcluster]->driver.scored(std::move(job), std::move(by_item));
}

std::vector<policy::EnsembleProblem> Pool::last_ensemble_problems() const {
  std::vector<policy::EnsembleProblem> problems;
  for (const auto& part : parts_) {
    if (auto problem = part->driver.last_ensemble_problem())
      problems.push_back(*std::move(problem));
  }
  return problems;
}

std::vector<policy::GroupProblem> Pool::last_problems() const {
  std::vector<policy::GroupProblem> problems;
  for (const auto& part : parts_) {
    if (auto problem = part->driver.last_problem()) problems.push_back(*std::move(problem));
  }
  return problems;
}

// A job may be on its way from one scheduler to another; the others forget what never came.
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

}  // namespace fermata::engine
