#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "serve/net/acceptor.h"

namespace grpc::experimental {
class ExternalConnectionAcceptor;
}

namespace fermata::serve {

// Accepts connections for gRPC, whose own listeners stop for good when descriptors run out, and
// bounds how many it has.
class GrpcListener {
 public:
  // UNAVAILABLE where it cannot listen (serve/acceptor.h).
  static absl::StatusOr<std::unique_ptr<GrpcListener>> open(boost::asio::io_context& io,
                                                            const std::string& host, uint16_t port,
                                                            size_t max_connections);
  // Once, when the server behind `to` has started. `to` outlives the thread of `io`.
  void start(grpc::experimental::ExternalConnectionAcceptor& to);
  void close() { acceptor_->close(); }  // on the thread of `io`
  uint16_t port() const { return acceptor_->port(); }

 private:
  GrpcListener(std::unique_ptr<Acceptor> acceptor, size_t max_connections)
      : acceptor_(std::move(acceptor)), max_connections_(max_connections) {}
  void accepted(Acceptor::Socket socket);
  void forget_closed();

  std::unique_ptr<Acceptor> acceptor_;
  const size_t max_connections_;
  boost::asio::io_context* io_ = nullptr;
  grpc::experimental::ExternalConnectionAcceptor* to_ = nullptr;
  // Descriptors that gRPC was given, with the sockets they stood for; it closes them unseen.
  absl::flat_hash_map<int, ino_t> given_;
};

}  // namespace fermata::serve
