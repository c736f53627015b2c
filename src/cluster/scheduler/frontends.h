#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/wire/channel.h"
#include "engine/snapshot.h"

namespace fermata::engine {
class Engine;
}

namespace fermata::cluster {

class FrontendPeer;

// The frontends of a scheduler: what they ask goes to the engine, and its replies to them.
// Thread-safe.
class Frontends {
 public:
  explicit Frontends(Duration silence) : silence_(silence) {}
  ~Frontends();

  void serve(engine::Engine& engine);
  bool serving() const;
  // Cuts all, and takes none any more; nothing is asked of the engine once it has returned. What
  // waits the frontends ask of another scheduler.
  void end();

  // From a connection's first message to its end; both block. False: there is no such session.
  void welcome(const FrontendHello& hello, const std::shared_ptr<Channel>& channel, uint64_t epoch);
  bool attach(const Attach& attach, const std::shared_ptr<Channel>& channel);
  std::vector<engine::FrontendStatistics> statistics() const;

 private:
  const Duration silence_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  engine::Engine* engine_ = nullptr;
  uint32_t asking_ = 0;  // threads that may ask the engine
  std::map<uint64_t, std::shared_ptr<FrontendPeer>> sessions_;
  std::map<std::string, engine::FrontendStatistics> ended_;  // sums, by name
};

}  // namespace fermata::cluster
