#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "serve/grpc/grpc_connections.h"
#include "serve/net/acceptor.h"

namespace grpc::experimental {
class ExternalConnectionAcceptor;
}

namespace fermata::serve {

// Accepts connections for gRPC, whose own listeners stop for good when descriptors run out.
class GrpcListener {
 public:
  // UNAVAILABLE where it cannot listen (serve/acceptor.h).
  static absl::StatusOr<std::unique_ptr<GrpcListener>> open(
      boost::asio::io_context& io, const std::string& host, uint16_t port,
      std::shared_ptr<GrpcConnections> connections);
  // Once, when the server behind `to` has started. `to` outlives the thread of `io`.
  void start(grpc::experimental::ExternalConnectionAcceptor& to);
  // On the thread of `io`. Those who have connected by then are accepted still.
  void close() { acceptor_->close(); }
  uint16_t port() const { return acceptor_->port(); }

 private:
  GrpcListener(boost::asio::io_context& io, std::unique_ptr<Acceptor> acceptor,
               std::shared_ptr<GrpcConnections> connections)
      : io_(io), acceptor_(std::move(acceptor)), connections_(std::move(connections)) {}
  void accepted(Acceptor::Socket socket);

  boost::asio::io_context& io_;
  const std::unique_ptr<Acceptor> acceptor_;
  const std::shared_ptr<GrpcConnections> connections_;
  grpc::experimental::ExternalConnectionAcceptor* to_ = nullptr;
};

}  // namespace fermata::serve
