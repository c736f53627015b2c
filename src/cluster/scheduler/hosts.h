#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/options.h"
#include "cluster/scheduler/frontends.h"
#include "cluster/scheduler/host.h"
#include "cluster/wire/listener.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

// The scheduler's side of other processes: listens for workers, which fill the pool's slots, and
// for frontends.
class Hosts : public engine::RemoteWorkers {
 public:
  explicit Hosts(Options options)
      : options_(std::move(options)), listener_(options_.tls), frontends_(options_.silence) {}
  ~Hosts() override;

  // UNAVAILABLE where it cannot listen; INVALID_ARGUMENT of certificates. Once.
  absl::Status listen();
  uint16_t port() const { return listener_.port(); }  // 0: it does not listen
  // Whoever comes is told to go to another scheduler until the epoch is set, above 0. Those that
  // have had a later one refuse this.
  void begin(uint64_t epoch) { epoch_ = epoch; }
  // The latest epoch of a scheduler that parts have had; 0: none.
  uint64_t heard() const { return heard_; }
  // Without an engine no frontend is taken. It must live until end_frontends() returns.
  void serve_frontends(engine::Engine& engine) { frontends_.serve(engine); }
  void end_frontends() { frontends_.end(); }

  std::unique_ptr<engine::ExecutorFactory> executors(
      const engine::WorkerType& type, std::unique_ptr<engine::ExecutorFactory> here) override;
  engine::ClusterStatistics statistics() const override;

 private:
  class Factory;
  using Slot = std::weak_ptr<RemoteExecutor>;

  void greet(const Frame& first, const std::shared_ptr<Channel>& channel);
  void welcome(const Hello& hello, const std::shared_ptr<Channel>& channel);
  void welcome(const FrontendHello& hello, const std::shared_ptr<Channel>& channel);
  void attach(const Attach& attach, const std::shared_ptr<Channel>& channel);
  void turn_away(Channel& channel, const std::string& cause, const std::string& why);
  std::string why_not(uint32_t version, const std::string& name, uint64_t epoch,
                      std::string& cause);
  std::shared_ptr<Host> make_host(const Hello& hello, const std::string& address);
  void forget(const std::shared_ptr<Host>& host);

  const Options options_;
  std::atomic<uint64_t> epoch_{1}, heard_{0};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<Slot>> slots_;  // by type
  std::map<uint64_t, std::shared_ptr<Host>> sessions_;
  std::map<std::string, engine::HostStatistics> ended_;  // sums, by host
  std::deque<std::string> gone_;                         // its names, who went last at the end
  Listener listener_;
  Frontends frontends_;
};

}  // namespace fermata::cluster
