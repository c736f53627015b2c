#include "serve/grpc/grpc_listener.h"

#include <grpcpp/server_builder.h>

#include <utility>

#include "base/status.h"

namespace fermata::serve {

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::open(
    boost::asio::io_context& io, const std::string& host, uint16_t port,
    std::shared_ptr<GrpcConnections> connections) {
  ASSIGN_OR_RETURN(auto acceptor, Acceptor::open(io, host, port));
  return std::unique_ptr<GrpcListener>(
      new GrpcListener(io, std::move(acceptor), std::move(connections)));
}

void GrpcListener::start(grpc::experimental::ExternalConnectionAcceptor& to) {
  to_ = &to;
  acceptor_->start({[this]() -> boost::asio::io_context& { return io_; },
                    [this](Acceptor::Socket socket) { accepted(std::move(socket)); }, [] {}});
}

void GrpcListener::accepted(Acceptor::Socket socket) {
  boost::system::error_code failed;
  const auto from = socket.remote_endpoint(failed);
  if (!failed) socket.non_blocking(true, failed);
  if (failed || !connections_->add(socket.native_handle(), from)) return;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  to_->HandleNewConnection(&connection);
}

}  // namespace fermata::serve
