#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/options.h"
#include "cluster/wire/channel.h"
#include "cluster/wire/lookout.h"
#include "cluster/worker/keeper.h"
#include "cluster/worker/ways.h"
#include "cluster/worker/worker_slots.h"
#include "engine/execute/executor.h"
#include "engine/trial/loader.h"

namespace fermata::cluster {

// The workers that this host brings to a scheduler: connects, loads what it is told, runs batches,
// and connects again when it has lost it.
class Worker {
 public:
  struct Options {
    std::vector<std::string> schedulers;  // HOST:PORT, which are tried in this order
    std::string name;                     // of this host
    // To listen on for other workers, which fetch there what stages gave; empty: frontends get it.
    std::string host = {};
    uint16_t port = 0;
    TlsFiles tls;
    engine::EngineOptions engine;  // with one type of workers, which are of this host
  };
  using Joined = std::function<void(uint32_t workers)>;  // with a scheduler

  // INVALID_ARGUMENT where such workers cannot be had here.
  static absl::StatusOr<std::unique_ptr<Worker>> make(Options options, Joined joined);
  // Until it has left. Blocks.
  void run();
  // Ends what it runs, then goes. Any thread.
  void leave();

 private:
  using Variants = std::vector<std::shared_ptr<const engine::Variant>>;
  Worker(Options options, Joined joined);

  absl::Status serve_once(const std::string& scheduler);
  absl::StatusOr<std::shared_ptr<Channel>> connect(const std::string& scheduler);
  absl::StatusOr<std::shared_ptr<const engine::Variant>> open(const Load& load);

  const Options options_;
  const Joined joined_;
  std::vector<std::unique_ptr<engine::ExecutorFactory>> executors_;
  std::unique_ptr<engine::Loader> loader_;
  std::unique_ptr<WorkerSlots> slots_;
  std::map<std::string, Variants> opened_;  // by model, of the thread that loads
  Lookout lookout_;
  Keeper keeper_{options_.tls};
  Ways ways_{options_.tls, lookout_, keeper_};
  uint64_t epoch_ = 0;  // the highest of any scheduler that it had
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> leaving_{false};
};

}  // namespace fermata::cluster
