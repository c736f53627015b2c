#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/host.h"
#include "cluster/lookout.h"
#include "cluster/options.h"
#include "engine/execute/executor.h"

namespace fermata::cluster {

inline constexpr uint32_t kVersion = 1;  // of the messages

// The workers that other hosts bring: listens for them and fills the pool's slots.
class Hosts : public engine::RemoteWorkers {
 public:
  explicit Hosts(Options options) : options_(std::move(options)) {}
  ~Hosts() override;

  // UNAVAILABLE where it cannot listen; INVALID_ARGUMENT of certificates. Once.
  absl::Status listen();
  uint16_t port() const { return port_; }  // 0: it does not listen

  std::unique_ptr<engine::ExecutorFactory> executors(
      const engine::WorkerType& type, std::unique_ptr<engine::ExecutorFactory> here) override;
  engine::ClusterStatistics statistics() const override;

 private:
  class Factory;
  using Slot = std::weak_ptr<RemoteExecutor>;

  void accept();
  void greet(const std::shared_ptr<Channel>& channel);
  void welcome(const Hello& hello, const std::shared_ptr<Channel>& channel);
  void attach(const Attach& attach, const std::shared_ptr<Channel>& channel);
  void refuse(Channel& channel, const std::string& cause, std::string_view why);
  std::shared_ptr<Host> make_host(const Hello& hello, const std::string& address);
  void forget(const std::shared_ptr<Host>& host);

  const Options options_;
  uint16_t port_ = 0;
  std::optional<boost::asio::ip::tcp::acceptor> acceptor_;
  Lookout lookout_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t connections_ = 0;                        // threads that serve one
  std::vector<std::weak_ptr<Channel>> greeting_;    // that have not said who they are
  std::map<std::string, std::vector<Slot>> slots_;  // by type
  std::map<uint64_t, std::shared_ptr<Host>> sessions_;
  std::map<std::string, engine::HostStatistics> ended_;  // sums, by host
  std::deque<std::string> gone_;                         // its names, who went last at the end
  std::map<std::string, uint64_t> refused_;
  std::thread thread_;
};

}  // namespace fermata::cluster
