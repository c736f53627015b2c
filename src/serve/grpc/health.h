#pragma once

#include <atomic>
#include <memory>

#include "health.grpc.pb.h"
#include "serve/grpc/grpc_service.h"
#include "serve/grpc/open_streams.h"

namespace fermata::serve {

using Health = grpc::health::v1::Health;

// grpc.health.v1.Health as Operations::ready() says, of the whole server and of each gRPC service.
// gRPC's own is told beforehand; this one asks when it is asked. Messages come as bytes, so that
// long ones are rejected before they are parsed.
class HealthService final : public Health::WithRawCallbackMethod_Check<
                                Health::WithRawCallbackMethod_Watch<Health::Service>> {
 public:
  using Seen = std::atomic<grpc::health::v1::HealthCheckResponse::ServingStatus>;

  explicit HealthService(GrpcHouse& house);
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;
  // Tells those who watch what has changed; a timer's, since nothing else says when.
  void look();
  // Tells them that the server is not ready, and ends their calls: UNAVAILABLE.
  void drain();

 private:
  GrpcHouse& house_;
  Seen seen_{grpc::health::v1::HealthCheckResponse::UNKNOWN};
  OpenStreams watches_;
};

}  // namespace fermata::serve
