#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "serve/call/client.h"
#include "serve/net/acceptor.h"

namespace grpc::experimental {
class ExternalConnectionAcceptor;
}

namespace fermata::serve {

// Accepts connections for gRPC, whose own listeners stop for good when descriptors run out, bounds
// how many it has and how many bytes the calls of each hold, and ends those that flood it
// (serve/grpc/watched_reads.h).
class GrpcListener {
 public:
  // UNAVAILABLE where it cannot listen (serve/acceptor.h).
  static absl::StatusOr<std::unique_ptr<GrpcListener>> open(boost::asio::io_context& io,
                                                            const std::string& host, uint16_t port,
                                                            size_t max_connections);
  // What each connection may hold, of `whole`. Before start().
  void set_budget(std::shared_ptr<ByteBudget> whole, uint64_t of_each);
  // Once, when the server behind `to` has started. `to` outlives the thread of `io`.
  void start(grpc::experimental::ExternalConnectionAcceptor& to);
  // On the thread of `io`. Those who have connected by then are accepted still.
  void close() { acceptor_->close(); }
  uint16_t port() const { return acceptor_->port(); }

  // Any thread, after close(). What was sent reaches their clients, which then see the end;
  // `gently`: those may close them, else they are closed at once.
  void end_connections(bool gently);
  // Any thread. Those that are open.
  size_t connections();
  // Any thread. What the connection from `peer`, as gRPC names it, may hold; of one that is not
  // known (it was closed just now), what all may.
  std::shared_ptr<ByteBudget> budget_of(const std::string& peer);
  // Any thread. Who that is; of one that is not known, a connection of its own.
  Client client_of(const std::string& peer);

 private:
  struct Given {
    int descriptor;
    uint64_t socket;  // tells it from another that has the descriptor later
    Client client;
    std::shared_ptr<ByteBudget> budget;
    bool ended = false;  // by us, for another one
  };
  GrpcListener(std::unique_ptr<Acceptor> acceptor, size_t max_connections)
      : acceptor_(std::move(acceptor)), max_connections_(max_connections) {}
  void accepted(Acceptor::Socket socket);
  // Both under the lock. How many are left.
  size_t forget_closed();
  // Ends the connection that came first of those that have never called, else the one over which
  // nothing has come for longest, at least ten seconds. False: there is none.
  bool evict();

  std::unique_ptr<Acceptor> acceptor_;
  const size_t max_connections_;
  boost::asio::io_context* io_ = nullptr;
  grpc::experimental::ExternalConnectionAcceptor* to_ = nullptr;
  std::shared_ptr<ByteBudget> whole_;  // none: without limit
  uint64_t of_each_ = 0;

  std::mutex mutex_;
  absl::flat_hash_map<std::string, Given> given_;  // by peer; gRPC closes them unseen
};

}  // namespace fermata::serve
