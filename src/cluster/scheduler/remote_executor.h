#pragma once

#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/wire/channel.h"
#include "engine/catalog.h"
#include "engine/execute/batch_thread.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

class Host;

// A worker of the pool that a slot of another host fills, or none. It keeps what is loaded, so
// that who comes loads it before it serves.
class RemoteExecutor : public engine::Executor {
 public:
  explicit RemoteExecutor(std::string type)
      : type_(std::move(type)),
        thread_(std::in_place, [this](engine::BatchRun& batch) { run_batch(batch); }) {}
  ~RemoteExecutor() override;

  // A host that cannot load it goes.
  absl::Status load(std::shared_ptr<const engine::Variant> variant) override;
  void unload(VariantId id) override;
  void run(engine::BatchRun batch) override;
  void tell_deaths(Deaths deaths) override { deaths_ = std::move(deaths); }
  void end_soon(Duration limit) override { latest_ = (monotonic_now() + limit).nanos(); }
  engine::RunHealth health() const override { return {false, lost_}; }
  bool runs_apart() const override { return true; }
  double memory_mb() const override { return 0; }
  bool comes_and_goes() const override { return true; }
  void tell_presence(Presences told) override;
  std::optional<engine::LinkBound> link() const override;
  std::string host() const override;
  Time ask() override;

  // For a host: to fill it, which only one does at a time; to load what it needs, and serve; to
  // take no more batches; to be gone.
  bool claim();
  absl::Status join(std::shared_ptr<Host> host, uint32_t slot, std::shared_ptr<Channel> channel);
  void leave();
  void detach(const Host& host);
  bool idle() const { return outstanding_ == 0; }
  bool there() const;
  const std::string& type() const { return type_; }

 private:
  // A batch that was sent.
  struct Begun {
    std::shared_ptr<Host> host;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<const engine::Variant> variant;
    uint64_t number = 0, bytes = 0;
    Time start;
  };
  void send_unload(VariantId id);
  void run_batch(engine::BatchRun& batch);
  static std::vector<bool> take_late(engine::BatchRun& batch, Time now);
  absl::StatusOr<Begun> begin(const engine::BatchRun& batch);
  absl::Status end(const absl::StatusOr<Begun>& begun, const engine::BatchRun& batch,
                   engine::BatchResult& result);
  absl::Status lost(Host& host, const Channel& channel, VariantId variant, const absl::Status& why);

  const std::string type_;
  Deaths deaths_;
  std::atomic<int64_t> latest_{std::numeric_limits<int64_t>::max()};
  std::atomic<uint64_t> lost_{0}, numbers_{0};
  std::mutex presence_;  // held while told_ is called, before mutex_
  Presences told_;
  std::mutex order_;  // of what goes to the thread and to the host; before the others
  std::mutex sending_;
  mutable std::mutex mutex_;
  bool claimed_ = false, there_ = false;
  std::shared_ptr<Host> host_;
  uint32_t slot_ = 0;
  std::shared_ptr<Channel> channel_;
  std::map<VariantId, std::shared_ptr<const engine::Variant>> wanted_;
  std::atomic<uint32_t> outstanding_{0};        // batches and unloads that have not ended
  std::optional<absl::StatusOr<Begun>> begun_;  // the only one of them
  uint32_t away_ = 0;  // answers in a row that a process was not there; the thread's own
  std::optional<engine::BatchThread> thread_;  // last: uses the above
};

}  // namespace fermata::cluster
