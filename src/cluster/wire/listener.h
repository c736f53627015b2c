#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/options.h"
#include "cluster/wire/channel.h"
#include "cluster/wire/lookout.h"
#include "cluster/wire/newcomers.h"

namespace fermata::cluster {

// Takes connections of other parts, makes them secure, and hands on who has said first what it
// comes for. Thread-safe.
class Listener {
 public:
  // On a thread of the connection's own, which it may keep until its end.
  using First = std::function<void(const Frame& first, const std::shared_ptr<Channel>&)>;

  explicit Listener(TlsFiles tls) : tls_(std::move(tls)) {}
  ~Listener();
  // UNAVAILABLE where it cannot listen; INVALID_ARGUMENT of certificates. Once.
  absl::Status listen(const std::string& host, uint16_t port, First first);
  uint16_t port() const {
    return acceptor_ == nullptr ? 0 : acceptor_->port();
  }  // 0: it does not listen
  // Takes no more, and cuts who has not said anything. Who has, the caller cuts; then wait()
  // returns when all threads of connections have ended.
  void close();
  void wait();

  // Cuts it, says so in the log and counts it under `cause`.
  void refuse(Channel& channel, const std::string& cause, std::string_view why);
  void count(const std::string& cause);  // the same, of who may come again often
  std::map<std::string, uint64_t> refused() const;

 private:
  void accept();
  void take(std::shared_ptr<Channel> channel);
  void greet(const std::shared_ptr<Channel>& channel);

  const TlsFiles tls_;
  First first_;
  std::unique_ptr<Acceptor> acceptor_;
  Lookout lookout_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t connections_ = 0;  // threads that serve one
  Newcomers newcomers_;
  std::map<std::string, uint64_t> refused_;
  std::thread thread_;
};

}  // namespace fermata::cluster
