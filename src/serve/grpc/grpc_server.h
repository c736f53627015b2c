#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "base/time.h"
#include "engine/engine.h"
#include "serve/call/shared_memory.h"
#include "serve/net/counters.h"
#include "serve/operations/operations.h"

namespace boost::asio {
class io_context;
}

namespace fermata::serve {

struct GrpcOptions {
  std::string address = "localhost";
  uint16_t port = 0;  // 0: a free one
  size_t max_connections = 1024;
  bool admin = true;                            // administrative calls are answered: serve/reach.h
  size_t max_message_bytes = size_t{64} << 20;  // as sent and when decompressed; to INT32_MAX
  // What all calls, and what those of a connection may hold (each stream as much as a
  // connection): messages, what they unpack to, replies.
  std::shared_ptr<ByteBudget> budget;  // none: without limit
  size_t connection_bytes = size_t{1} << 30;
  // Of it, messages that have not come whole and open streams; 0: half and an eighth.
  size_t arriving_bytes = 0, streams_bytes = 0;
  uint32_t max_calls = 1024;  // of a connection at a time; a client waits with the next
};

// inference.GRPCInferenceService and grpc.health.v1.Health on gRPC's callback
// API, which brings its own threads. Bounds what gRPC lets a client do: messages, calls of a
// connection at a time, metadata.
struct GrpcServerImpl;
class GrpcServer {
 public:
  // UNAVAILABLE where it cannot listen. All but the options outlive it; the thread of `io`, which
  // accepts connections, ends before it.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> start(const GrpcOptions& options,
                                                           boost::asio::io_context& io,
                                                           engine::Engine& engine,
                                                           Operations& operations,
                                                           const SharedMemory& regions);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  uint16_t port() const;
  const FrontEndCounters& counters() const;
  size_t connections() const;  // that are open
  // Calls under way end; new infer calls are UNAVAILABLE. Where no call is left, or `patience` is
  // over, closes the connections, so that whatever a client still has there is UNAVAILABLE to it.
  // Operations::stop() was called. Once; blocks. The thread of `io` runs.
  void stop(Duration patience);

 private:
  explicit GrpcServer(std::unique_ptr<GrpcServerImpl> impl);
  std::unique_ptr<GrpcServerImpl> impl_;
};

}  // namespace fermata::serve
