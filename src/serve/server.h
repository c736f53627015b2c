#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "engine/engine.h"
#include "serve/config/config.h"
#include "serve/net/counters.h"

namespace fermata::tune {
class Recorder;
}

namespace fermata::serve {

// What the live page shows beside the engine's own statistics.
struct LiveOptions {
  engine::EngineOptions engine;                        // that it was made with
  std::shared_ptr<tune::Recorder> recorder = nullptr;  // its observer; null: nothing is recorded
  std::string record_file = {};                        // recordings go there too; empty: nowhere
  bool tune = true;                                    // rules are chosen by what is recorded
};

struct Ports {
  uint16_t http = 0, grpc = 0, metrics = 0;
  uint16_t admin = 0;  // 0: none of its own
};

// An engine with its front ends: what `fermata serve` runs.
class Server {
 public:
  // UNAVAILABLE where a port cannot be had, without keeping it: before what takes long.
  static absl::Status try_ports(const ListenOptions& options);
  // The same where it cannot be had any more.
  static absl::StatusOr<std::unique_ptr<Server>> start(const ListenOptions& options,
                                                       std::unique_ptr<engine::Engine> engine,
                                                       LiveOptions live = {});
  // Stops without patience where stop() was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Ports ports() const;  // those that are bound
  engine::Engine& engine();

  // Is not ready from now on, so that whoever looks at that sends no more, and answers as before.
  void leave();
  // Stops being ready and accepting, waits up to `patience` for requests under way over both
  // protocols, cancels the rest, ends. Blocks; once. A model that is being loaded, or that runs
  // without end, is waited for.
  void stop(Duration patience);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace fermata::serve
