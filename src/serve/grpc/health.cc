#include "serve/grpc/health.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "base/status.h"
#include "serve/grpc/answer.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/reflection.h"
#include "serve/grpc/scaler.h"
#include "serve/grpc/watch.h"

namespace fermata::serve {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr size_t kLongestCheck = 4 * 1024;

// What the request asks about; empty: the whole server.
absl::StatusOr<std::string> read_name(const grpc::ByteBuffer* request) {
  HeldBytes uncounted;
  HealthCheckRequest asked;
  // It is the call's own.
  RETURN_IF_ERROR(
      read_message(const_cast<grpc::ByteBuffer&>(*request), kLongestCheck, uncounted, asked));
  return asked.service();
}

bool is_known(const std::string& name) {
  return name.empty() || name == Protocol::service_full_name() ||
         name == Reflection::service_full_name() || name == Health::service_full_name() ||
         name == Scaler::service_full_name();
}

absl::Status write(HealthCheckResponse::ServingStatus status, grpc::ByteBuffer& to) {
  HealthCheckResponse response;
  response.set_status(status);
  HeldBytes uncounted;
  return write_message(response, uncounted, to);
}

HealthCheckResponse::ServingStatus status_of(const GrpcHouse& house) {
  return house.operations.ready().ready ? HealthCheckResponse::SERVING
                                        : HealthCheckResponse::NOT_SERVING;
}

}  // namespace

HealthService::HealthService(GrpcHouse& house) : house_(house) {}

// Once for all who watch.
void HealthService::look() {
  seen_.store(status_of(house_));
  watches_.look();
}

void HealthService::drain() {
  seen_.store(status_of(house_));
  watches_.drain();
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  const auto name = read_name(request);
  return Answer::give(house_, *context, *response, [&]() -> absl::Status {
    RETURN_IF_ERROR(name.status());
    if (!is_known(*name)) return not_found("no service '{}'", *name);
    return write(status_of(house_), *response);
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  const auto name = read_name(request);
  const bool known = name.ok() && is_known(*name);
  seen_.store(status_of(house_));
  return serve::Watch::start(house_, *context, watches_, name.status(), [this, known] {
    HealthCheckResponse response;
    response.set_status(known ? seen_.load() : HealthCheckResponse::SERVICE_UNKNOWN);
    return response.SerializeAsString();
  });
}

}  // namespace fermata::serve
