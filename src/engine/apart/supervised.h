#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "engine/apart/ledger.h"
#include "engine/apart/process.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "engine/options.h"

namespace fermata::engine::apart {

// The process of a model, and after its death the next. Thread-safe.
class Supervised {
 public:
  // In a row, without a run between them that ended well.
  static constexpr uint32_t kMostDeaths = 5;
  // The same of runs that failed, and not for what they were given.
  static constexpr uint32_t kMostFailures = 32;

  // `standby`: as WorkerOptions has it.
  Supervised(std::string model, ModelProcess::Options process, WorkerType worker, bool standby,
             std::shared_ptr<Ledger> ledger);
  // Blocks until its process has ended.
  ~Supervised();

  // For one of the workers that use it. Blocks; the first loads it.
  absl::Status load(const void* user, const std::shared_ptr<const Variant>& variant,
                    Executor::Deaths deaths = nullptr);
  // Returns at once: what nobody uses any more goes with sweep(), which blocks.
  void unload(const void* user, VariantId id);
  void sweep();
  // Who waits for its first process waits no more, nor does anybody later.
  void stop_loading();

  // What runs it now; else why nothing does, with its Absence.
  absl::StatusOr<std::shared_ptr<ModelProcess>> take();
  // As Executor's, for a user.
  void when_back(const void* user, absl::AnyInvocable<void()> there);
  // Calls nothing of its any more: what it was to call.
  std::vector<absl::AnyInvocable<void()>> forget(const void* user);
  void pin(uint32_t slot, const std::vector<uint32_t>& processors);

  const std::string& model() const { return model_; }
  bool quarantined() const;
  bool there() const;
  bool has_standby() const;
  std::string why_away() const;     // for longer than a restart takes; empty: it is not
  double memory_mb() const;         // of its process, resident
  Duration processor_time() const;  // of the same

 private:
  enum class State : uint8_t { kNew, kThere, kAway, kQuarantined, kFailed };
  struct Waiting {
    const void* user;
    absl::AnyInvocable<void()> there;
  };

  // A process, and the variants that it has loaded.
  struct Started {
    std::shared_ptr<ModelProcess> process;
    std::set<VariantId> held;
  };
  void supervise();
  absl::StatusOr<Started> start(bool as_standby = false);
  void open_once();
  absl::StatusOr<Started> next();
  void keep_standby(std::unique_lock<std::mutex>& lock);
  bool standby_lacks() const;
  void watch(const std::shared_ptr<ModelProcess>& process);
  absl::Status fill(Started& started, bool as_standby);
  absl::Status have(const std::shared_ptr<const Variant>& variant,
                    std::unique_lock<std::mutex>& lock);
  // What a process had taken when its last batch began.
  struct Spent {
    uint64_t begun = 0;
    Duration until;
  };
  void limit_processor(ModelProcess& process, Spent& spent) const;
  void tell_all(std::unique_lock<std::mutex>& lock);
  void tell_death(Time at, const std::string& cause);
  bool pause(std::unique_lock<std::mutex>& lock);  // false: it ends

  const std::string model_;
  const ModelProcess::Options options_;
  const WorkerType worker_;
  const bool standby_wanted_;
  const std::shared_ptr<Ledger> ledger_;
  std::mutex loading_;  // held where variants are loaded or unloaded
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kNew;
  bool ending_ = false, loads_ = true;
  absl::Status failure_;    // of the last start
  std::string last_death_;  // in words
  uint32_t in_a_row_ = 0;   // deaths and failed starts
  uint32_t quarantines_ = 0;
  Time back_at_;
  std::shared_ptr<ModelProcess> process_;
  std::shared_ptr<ModelProcess> starting_;  // that which will be
  std::set<VariantId> held_;                // by the process
  std::optional<Started> standby_;          // the next, where it is wanted
  bool standby_failed_ = false;             // and could not be had
  std::map<VariantId, std::shared_ptr<const Variant>> variants_;
  std::set<std::pair<VariantId, const void*>> users_;
  std::map<const void*, Executor::Deaths> told_;      // by user, who want to be
  std::map<uint32_t, std::vector<uint32_t>> pinned_;  // by slot
  std::deque<Waiting> waiting_;
  std::deque<std::thread> watches_;  // of the last processes
  std::thread thread_;
};

}  // namespace fermata::engine::apart
