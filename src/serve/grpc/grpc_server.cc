#include "serve/grpc/grpc_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "engine/threads/periodic.h"
#include "serve/grpc/grpc_connections.h"
#include "serve/grpc/grpc_listener.h"
#include "serve/grpc/grpc_service.h"
#include "serve/grpc/health.h"
#include "serve/grpc/reflection.h"
#include "serve/grpc/scaler.h"

namespace fermata::serve {
namespace {

constexpr int kHandshakeLimitMs = 10'000;  // from a connection to the client's first settings
constexpr int kMetadataBytes = 8 * 1024;   // with 32 for each field, as HTTP/2 counts
constexpr std::chrono::milliseconds kLookAgain(5);      // whether calls and connections have ended
constexpr std::chrono::seconds kFarewell(1);            // for clients to close what we have closed
constexpr Duration kTellAgain = Duration::millis(100);  // those who watch the server's health
constexpr int kProbeAfterMs = 120'000, kProbeLimitMs = 20'000;  // of a client that is silent

void bound(grpc::ServerBuilder& builder, const GrpcOptions& options) {
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeLimitMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.max_calls));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kProbeAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kProbeLimitMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // gRPC would close clients that ping more often than every five minutes; FrameWatch bounds pings.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // gRPC would decompress without a limit; serve/grpc_message.h does it with one.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  grpc::ResourceQuota quota;
  // What is whole is weighed by us; of messages that are still on their way only gRPC knows. Beyond
  // this it gives up calls and idle connections.
  if (options.budget != nullptr) quota.Resize(options.budget->limit() / 2 * 3);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);
}

}  // namespace

struct GrpcServerImpl {
  boost::asio::io_context& io;
  const std::shared_ptr<GrpcConnections> connections;
  std::unique_ptr<GrpcListener> listener;
  GrpcHouse house;
  GrpcService service{house};
  ReflectionService reflection{house};
  HealthService health{house};
  ScalerService scaler{house};
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<engine::Periodic> teller;  // of `health`, and of `connections`
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcOptions& options,
                                                              boost::asio::io_context& io,
                                                              engine::Engine& engine,
                                                              Operations& operations,
                                                              const SharedMemory& regions) {
  const auto connections =
      GrpcConnections::make({options.max_connections, options.budget, options.connection_bytes,
                             options.arriving_bytes, options.streams_bytes, options.max_calls});
  ASSIGN_OR_RETURN(auto listener,
                   GrpcListener::open(io, options.address, options.port, connections));
  auto impl = std::unique_ptr<GrpcServerImpl>(new GrpcServerImpl{io,
                                                                 connections,
                                                                 std::move(listener),
                                                                 {engine,
                                                                  operations,
                                                                  regions,
                                                                  options.admin,
                                                                  options.max_message_bytes,
                                                                  *connections,
                                                                  options.budget,
                                                                  options.connection_bytes,
                                                                  {},
                                                                  {},
                                                                  {}}});
  connections->tell([&engine](uint64_t connection) { engine.close_streams(connection); });
  // Debian builds Abseil with its search for deadlocks, which every lock inside gRPC pays for.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::ServerBuilder builder;
  impl->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  bound(builder, options);
  builder.RegisterService(&impl->service);
  builder.RegisterService(&impl->reflection);
  builder.RegisterService(&impl->health);
  builder.RegisterService(&impl->scaler);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) {
    return error(absl::StatusCode::kUnavailable, "cannot start gRPC; its log says why");
  }
  impl->listener->start(*impl->acceptor);
  impl->teller =
      std::make_unique<engine::Periodic>(kTellAgain, [&health = impl->health, connections] {
        health.look();
        connections->look();
      });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

GrpcServer::GrpcServer(std::unique_ptr<GrpcServerImpl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() { impl_->connections->tell(nullptr); }

uint16_t GrpcServer::port() const { return impl_->listener->port(); }
const FrontEndCounters& GrpcServer::counters() const { return impl_->house.counters; }
size_t GrpcServer::connections() const { return impl_->connections->count(); }

// gRPC 1.51 resets what still comes while it shuts down, which clients see as CANCELLED and do not
// try again. So it is shut down when nobody is connected any more: a client whose connection was
// closed sees UNAVAILABLE, whatever it had there.
void GrpcServer::stop(Duration patience) {
  using Clock = std::chrono::steady_clock;
  const auto wait_until = [](Clock::time_point limit, auto done) {
    while (!done() && Clock::now() < limit) std::this_thread::sleep_for(kLookAgain);
    return done();
  };
  const auto limit = Clock::now() + std::chrono::nanoseconds(patience.nanos());
  std::promise<void> closed;
  boost::asio::post(impl_->io, [&listener = *impl_->listener, &closed] {
    listener.close();
    closed.set_value();
  });
  closed.get_future().wait();
  GrpcHouse& house = impl_->house;
  house.refusing.store(true);
  house.streams.drain();
  impl_->health.drain();
  impl_->scaler.drain();
  const bool all_ended = wait_until(limit, [&house] { return house.under_way.load() == 0; });
  impl_->connections->end_all(all_ended);
  wait_until(Clock::now() + kFarewell, [this] { return impl_->connections->count() == 0; });
  impl_->teller.reset();
  impl_->server->Shutdown(std::chrono::system_clock::now());
  impl_->server->Wait();
  impl_->connections->tell(nullptr);
}

}  // namespace fermata::serve
