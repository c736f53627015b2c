#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/execute/executor.h"
#include "engine/host/pool.h"
#include "engine/options.h"

namespace fermata::engine {

// The dedicated replicas of pipelines' stages (IPA, section 3): each variant of a stage has workers
// of its own, with a queue and batches of their own, as many and as large as a plan says. Each runs
// with the threads that the plan counts for it, which are pinned to the processors that have the
// fewest replicas. Thread-safe.
class Replicas {
 public:
  struct Wanted {
    uint32_t replicas = 0, batch = 1;
  };
  using Plan = std::map<std::string, Wanted>;  // by route, "service/stage/model"

  // `options` as prepare_dedicated() leaves them; `ids` are those of the pool, which outlives this.
  Replicas(const EngineOptions& options,
           std::span<const std::unique_ptr<ExecutorFactory>> executors, std::atomic<uint64_t>& ids,
           const Pool::Orphan& orphan);
  ~Replicas();

  // False where no replica of the job's route takes work now, or it has none.
  bool submit(const std::shared_ptr<Job>& job);
  void cancel(JobId id);

  // The newest version of a model, into all of its replicas, those that come later too. Blocks.
  absl::Status load(std::span<const std::shared_ptr<const Variant>> versions);
  // As Driver::retire.
  void retire(const Variant& variant, bool refuse_waiting);

  // Makes the replicas of a service what the plan says: those that come are loaded first, then
  // `moved` sends requests their way, and those that leave end what they run; the last ones of a
  // variant also what waits for them, in sweep(). Blocks for as long as models load.
  void follow(const std::string& service, const Plan& plan, absl::FunctionRef<void()> moved);
  // Lets the replicas go that nobody asks any more and that have ended what they had.
  void sweep();

  std::map<std::string, uint32_t> serving() const;  // by route
  bool overdue() const;
  void settle();

 private:
  struct Cell;
  void resize(Cell& cell, uint32_t replicas);
  void forget(const Variant& variant, bool refuse_waiting);

  mutable std::mutex mutex_;                  // one load or plan at a time
  std::vector<uint32_t> processors_, users_;  // this process may use them; replicas on each
  std::map<std::string, std::unique_ptr<Cell>> cells_;  // by route
};

}  // namespace fermata::engine
