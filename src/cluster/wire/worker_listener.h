#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/wire/listener.h"

namespace fermata::cluster {

// Where workers fetch tensors, or bring some: takes their connections, each of which begins with
// Attach, and serves each on a thread of its own. Thread-safe.
class WorkerListener {
 public:
  // Until the worker has gone (UNAVAILABLE), or said what makes no sense.
  using Serve = std::function<absl::Status(const Attach& first, Channel& channel)>;

  explicit WorkerListener(TlsFiles tls) : listener_(std::move(tls)) {}
  ~WorkerListener();  // cuts them; blocks until none is served any more
  // As Listener::listen().
  absl::Status listen(const std::string& host, uint16_t port, Serve serve);
  uint16_t port() const { return listener_.port(); }
  std::map<std::string, uint64_t> refused() const { return listener_.refused(); }

 private:
  std::mutex mutex_;
  bool over_ = false;
  std::vector<std::weak_ptr<Channel>> channels_;
  Listener listener_;
};

}  // namespace fermata::cluster
