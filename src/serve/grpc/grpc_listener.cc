#include "serve/grpc/grpc_listener.h"

#include <grpcpp/server_builder.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

namespace fermata::serve {
namespace {

// What tells one socket from another that has its descriptor later; 0: none.
ino_t identity_of(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::open(boost::asio::io_context& io,
                                                                 const std::string& host,
                                                                 uint16_t port,
                                                                 size_t max_connections) {
  ASSIGN_OR_RETURN(auto acceptor, Acceptor::open(io, host, port));
  auto listener =
      std::unique_ptr<GrpcListener>(new GrpcListener(std::move(acceptor), max_connections));
  listener->io_ = &io;
  return listener;
}

void GrpcListener::start(grpc::experimental::ExternalConnectionAcceptor& to) {
  to_ = &to;
  acceptor_->start({[this]() -> boost::asio::io_context& { return *io_; },
                    [this](Acceptor::Socket socket) { accepted(std::move(socket)); }, [] {}});
}

void GrpcListener::accepted(Acceptor::Socket socket) {
  given_.erase(socket.native_handle());  // the number is free again: that socket is gone
  if (given_.size() >= max_connections_) forget_closed();
  if (given_.size() >= max_connections_) return;  // the client may try again
  boost::system::error_code failed;
  socket.non_blocking(true, failed);
  if (failed) return;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  given_.emplace(connection.fd, identity_of(connection.fd));
  to_->HandleNewConnection(&connection);
}

void GrpcListener::forget_closed() {
  absl::erase_if(given_,
                 [](const auto& entry) { return identity_of(entry.first) != entry.second; });
}

}  // namespace fermata::serve
