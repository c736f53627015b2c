#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "engine/apart/process.h"
#include "engine/catalog.h"
#include "engine/options.h"
#include "engine/snapshot.h"

namespace fermata::engine::apart {

// What happened to the processes of models, by their name; outlives them. Thread-safe.
class Ledger {
 public:
  void started(const std::string& model, int64_t pid);
  void died(const std::string& model, const std::string& cause);
  std::map<std::string, ProcessStatistics> rows() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ProcessStatistics> rows_;
};

// The process of a model, and after its death the next. Thread-safe.
class Supervised {
 public:
  // In a row, without a run between them that ended well.
  static constexpr uint32_t kMostDeaths = 5;

  Supervised(std::string model, ModelProcess::Options process, WorkerType worker,
             std::shared_ptr<Ledger> ledger);
  ~Supervised();

  // For one of the workers that use it. Blocks; the first loads it.
  absl::Status load(const void* user, const std::shared_ptr<const Variant>& variant);
  // Returns at once: what nobody uses any more goes with sweep(), which blocks.
  void unload(const void* user, VariantId id);
  void sweep();

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
  std::string why_away() const;  // for longer than a restart takes; empty: it is not

 private:
  enum class State : uint8_t { kNew, kThere, kAway, kQuarantined, kFailed };
  struct Waiting {
    const void* user;
    absl::AnyInvocable<void()> there;
  };

  void supervise();
  absl::StatusOr<std::shared_ptr<ModelProcess>> start();
  void tell_all(std::unique_lock<std::mutex>& lock);
  void died(const std::shared_ptr<ModelProcess>& process);
  bool pause(std::unique_lock<std::mutex>& lock);  // false: it ends

  const std::string model_;
  const ModelProcess::Options options_;
  const WorkerType worker_;
  const std::shared_ptr<Ledger> ledger_;
  std::mutex loading_;  // held where variants are loaded or unloaded
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kNew;
  bool ending_ = false;
  absl::Status failure_;    // of the last start
  std::string last_death_;  // in words
  uint32_t in_a_row_ = 0;   // deaths and failed starts
  uint32_t quarantines_ = 0;
  Time back_at_;
  std::shared_ptr<ModelProcess> process_;
  std::map<VariantId, std::shared_ptr<const Variant>> variants_;
  std::set<std::pair<VariantId, const void*>> users_;
  std::map<uint32_t, std::vector<uint32_t>> pinned_;  // by slot
  std::deque<Waiting> waiting_;
  std::thread reaper_;
  std::thread thread_;
};

}  // namespace fermata::engine::apart
