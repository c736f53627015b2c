#include "serve/grpc/grpc_listener.h"

#include <grpcpp/server_builder.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "base/status.h"
#include "serve/grpc/watched_reads.h"

namespace fermata::serve {
namespace {

// Without anything from it, where others want its connection; a call may run as long unseen.
constexpr std::chrono::seconds kIdleLimit(10);

// As gRPC names a client, which is a URI.
std::string peer_of(const boost::asio::ip::tcp::endpoint& from) {
  auto address = from.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  }
  return fmt::format(fmt::runtime(address.is_v4() ? "ipv4:{}:{}" : "ipv6:%5B{}%5D:{}"),
                     address.to_string(), from.port());
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

void GrpcListener::set_budget(std::shared_ptr<ByteBudget> whole, uint64_t of_each) {
  whole_ = std::move(whole);
  of_each_ = of_each;
}

void GrpcListener::accepted(Acceptor::Socket socket) {
  boost::system::error_code failed;
  const auto from = socket.remote_endpoint(failed);
  if (failed) return;
  Given given{socket.native_handle(),
              socket_identity(socket.native_handle()),
              {new_connection_number(), address_of(from)},
              whole_};
  if (whole_ != nullptr) given.budget = std::make_shared<ByteBudget>(of_each_, whole_);
  {
    const std::scoped_lock lock(mutex_);
    if (given_.size() >= max_connections_ && forget_closed() >= max_connections_ && !evict()) {
      return;
    }
    given_.insert_or_assign(peer_of(from), std::move(given));
  }
  socket.non_blocking(true, failed);
  if (failed || !watch_reads(socket.native_handle()).ok()) return;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = socket.release();
  to_->HandleNewConnection(&connection);
}

size_t GrpcListener::connections() {
  const std::scoped_lock lock(mutex_);
  return forget_closed();
}

void GrpcListener::end_connections(bool gently) {
  const std::scoped_lock lock(mutex_);
  forget_closed();
  for (const auto& [peer, given] : given_) {
    ::shutdown(given.descriptor, gently ? SHUT_WR : SHUT_RDWR);
  }
}

std::shared_ptr<ByteBudget> GrpcListener::budget_of(const std::string& peer) {
  const std::scoped_lock lock(mutex_);
  const auto found = given_.find(peer);
  return found == given_.end() ? whole_ : found->second.budget;
}

Client GrpcListener::client_of(const std::string& peer) {
  const std::scoped_lock lock(mutex_);
  const auto found = given_.find(peer);
  return found == given_.end() ? Client{new_connection_number(), peer} : found->second.client;
}

bool GrpcListener::evict() {
  Given* first = nullptr;
  SeenReads of_first;
  for (auto& [peer, given] : given_) {
    if (given.ended) continue;
    const SeenReads seen = seen_reads(given.descriptor);
    const bool before =
        std::pair(seen.called, seen.last) < std::pair(of_first.called, of_first.last);
    if (first != nullptr && !before) continue;
    first = &given;
    of_first = seen;
  }
  const auto idle = std::chrono::steady_clock::now() - of_first.last;
  if (first == nullptr || (of_first.called && idle < kIdleLimit)) return false;
  first->ended = true;
  ::shutdown(first->descriptor, SHUT_RDWR);
  return true;
}

size_t GrpcListener::forget_closed() {
  absl::erase_if(given_, [](const auto& entry) {
    return socket_identity(entry.second.descriptor) != entry.second.socket;
  });
  return given_.size();
}

}  // namespace fermata::serve
