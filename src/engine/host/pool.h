#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/host/room.h"
#include "engine/options.h"
#include "engine/schedule/driver.h"
#include "engine/snapshot.h"

namespace fermata::engine {

// All workers, divided into sub-clusters of as equal a size as can be (Symphony, section
// 4.7). Each has a scheduler of its own on a thread of its own, and its workers have the
// same variants loaded. Workers are numbered through. Thread-safe.
class Pool {
 public:
  using Orphan = std::function<void(std::shared_ptr<Job>)>;  // as the driver's

  // `executors` by type of worker; workers of several types are dealt out evenly. 1 <= subclusters
  // <= workers. INVALID_ARGUMENT where the policy is unknown, or not made of what several threads
  // can share.
  static absl::StatusOr<std::unique_ptr<Pool>> make(
      const EngineOptions& options, std::span<const std::unique_ptr<ExecutorFactory>> executors,
      uint32_t subclusters, Orphan orphan);
  // As the driver's. Nobody may submit to it any more, `orphan` neither.
  ~Pool();

  std::atomic<uint64_t>& ids() { return ids_; }  // of jobs and their parts, all different
  JobId next_id() { return JobId(ids_.fetch_add(1, std::memory_order_relaxed)); }
  void submit(uint32_t subcluster, std::shared_ptr<Job> job);
  void cancel(JobId id);                                                 // wherever it is
  void learned(JobId id, const std::vector<policy::Estimate>& by_item);  // the same
  void learned(uint32_t subcluster, std::shared_ptr<Job> job,
               std::vector<policy::Estimate> by_item);
  std::vector<policy::Problem> last_problems() const;

  // Into every worker of the sub-cluster and known to its scheduler. RESOURCE_EXHAUSTED
  // where there is no room; waits up to `patience` for room that is being given back.
  absl::Status load(uint32_t subcluster, const std::shared_ptr<const Variant>& variant,
                    Duration slo, Duration patience);
  // As Driver::retire; the room is free again when the workers have unloaded it.
  void retire(uint32_t subcluster, VariantId id, bool refuse_waiting);

  // As the driver's, of all.
  void set_rules(const policy::Rules& rules);

  // As the driver's, of a pool that is not divided.
  void load_ahead(uint32_t worker, std::shared_ptr<const Variant> variant,
                  absl::AnyInvocable<void(absl::Status)> done);
  void let_go(uint32_t worker, std::shared_ptr<const Variant> variant);

  // As Driver::set_workers, of a pool that is not divided.
  uint32_t set_workers(uint32_t count);

  // No load succeeds or waits any more.
  void close();
  // Blocks until no scheduler is handling what came before.
  void settle();

  uint32_t size() const { return static_cast<uint32_t>(parts_.size()); }
  std::vector<WorkerStatistics> worker_statistics() const;
  std::vector<SubclusterStatistics> subcluster_statistics() const;
  Duration control_delay() const;  // the longest of the schedulers'
  uint64_t batch_keys() const;
  bool overdue() const;  // some worker's run is

 private:
  struct Part;
  Pool() = default;

  std::atomic<uint64_t> ids_{1};
  std::vector<std::unique_ptr<Part>> parts_;
};

// INVALID_ARGUMENT where Pool::make would be refused for its policy.
absl::Status check_policy(const EngineOptions& options);

}  // namespace fermata::engine
