#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cluster/options.h"
#include "engine/options.h"
#include "serve/call/shared_memory.h"
#include "tune/recorder_options.h"

namespace fermata::cluster {
class Hosts;
}

namespace fermata::serve {

struct ListenOptions {
  std::string host = "localhost";      // every address that it has
  bool is_public = false;              // other machines may reach it: needed beside such a host
  std::optional<bool> admin;           // administrative calls; absent: only on a loopback host
  std::vector<std::string> origins;    // of other servers' pages that may open WebSockets
  std::optional<uint16_t> admin_port;  // they have an HTTP port of their own, on localhost
  // 0: a free port, which the server reports when it is ready.
  uint16_t http = 8000, grpc = 8001, metrics = 8002;
  uint32_t threads = 1;             // of each front end
  uint32_t max_connections = 1024;  // over HTTP and over gRPC each, or fewer: serve/descriptors.h
  uint32_t max_request_mb = 64;     // of one message, as sent and when decompressed
  // That clients may hold at a time, a connection at most a quarter of it: messages that are being
  // read, decompressed or worked on, replies that are not taken yet.
  uint32_t memory_mb = 1024;
  // Of that, over gRPC: messages that have not come whole, and open streams. 0: half and an
  // eighth of it.
  uint32_t arriving_mb = 0, streams_mb = 0;
  uint32_t max_calls = 1024;  // of a gRPC connection at a time
  bool ready_any = false;     // ready as soon as any model is served; else all that is configured
  // Without a prefix: everything, where `host` is this machine, else nothing.
  SharedMemoryOptions shared_memory{.prefix = std::nullopt};
};

// What fermata.yaml says (docs/configuration.md).
struct Config {
  ListenOptions listen;
  engine::EngineOptions engine;
  cluster::Options cluster;
  std::shared_ptr<cluster::Hosts> hosts;  // that listens, once told to, where a type is remote
  bool exit_on_error = false;  // at the start, where something that is configured is not served
  Duration drain_delay;        // after SIGTERM: not ready, and answers as before
  tune::RecorderOptions recorder;
  bool tune = true;                            // the default's rules are chosen by what is recorded
  std::vector<std::string> model_environment;  // engine::ModelEnvironment's, besides its own
  std::string models_mirror;       // folder for models from a store; empty: store::default_mirror()
  std::string log_level = "info";  // a name that spdlog knows
};

// For the workers' options: what starts the processes of models. Starts nothing yet.
std::shared_ptr<engine::Nursery> make_nursery(const Config& config);

// `folder` is what relative paths in the text start from. INVALID_ARGUMENT names
// the path in the document, what stands there and what was expected.
absl::StatusOr<Config> parse_config(std::string_view text, const std::string& folder);
// Blocks; relative paths start from the file's folder.
absl::StatusOr<Config> load_config(const std::string& file);

}  // namespace fermata::serve
