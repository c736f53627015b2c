#include "serve/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "serve/grpc_service.h"

namespace fermata::serve {

struct GrpcServerImpl {
  GrpcHouse house;
  GrpcService service{house};
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(const GrpcOptions& options,
                                                              engine::Engine& engine,
                                                              Operations& operations,
                                                              const SharedMemory& regions) {
  auto impl =
      std::unique_ptr<GrpcServerImpl>(new GrpcServerImpl{{engine, operations, regions, {}}});
  const std::string address = fmt::format("{}:{}", options.address, options.port);
  // Debian builds Abseil with its search for deadlocks, which every lock inside gRPC pays for.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &impl->port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return error(absl::StatusCode::kUnavailable, "cannot listen on {} for gRPC", address);
  }
  auto result = std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
  result->set_serving(true);
  return result;
}

GrpcServer::GrpcServer(std::unique_ptr<GrpcServerImpl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() = default;

uint16_t GrpcServer::port() const { return static_cast<uint16_t>(impl_->port); }
const FrontEndCounters& GrpcServer::counters() const { return impl_->house.counters; }

void GrpcServer::set_serving(bool serving) {
  auto* health = impl_->server->GetHealthCheckService();
  health->SetServingStatus(serving);
  health->SetServingStatus("inference.GRPCInferenceService", serving);
}

void GrpcServer::stop(Duration patience) {
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::nanoseconds(patience.nanos()));
  impl_->server->Wait();
}

}  // namespace fermata::serve
