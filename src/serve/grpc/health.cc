#include "serve/grpc/health.h"

#include <grpcpp/grpcpp.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/reflection.h"

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
         name == Reflection::service_full_name() || name == Health::service_full_name();
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

// One client that watches. Calls of gRPC and of look() keep it alive.
class Watcher final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                      public OpenStreams::Stream,
                      public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(GrpcHouse& house, OpenStreams& watches, const HealthService::Seen& seen,
          std::shared_ptr<ByteBudget> budget)
      : house_(house), watches_(watches), seen_(seen), open_(std::move(budget)) {
    house_.under_way.fetch_add(1);
  }

  void start(const grpc::ByteBuffer* request) {
    self_ = shared_from_this();
    auto name = read_name(request);
    absl::Status bad = name.status();
    if (bad.ok() && !open_.grow_to(GrpcHouse::kStreamHolds)) {
      bad = error(absl::StatusCode::kResourceExhausted,
                  "too many watch the server's health (listen.memory_mb); use Check");
    }
    if (!bad.ok()) {
      const std::scoped_lock lock(mutex_);
      return finish(bad);
    }
    known_ = is_known(*name);
    tell(status_of(house_));
    watches_.add(self_);
  }

  void look() override { tell(seen_.load()); }
  void drain() override {
    tell(status_of(house_));
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    advance();
  }

  void OnWriteDone(bool ok) override {
    const std::scoped_lock lock(mutex_);
    writing_ = false;
    if (!ok || cancelled_) return finish(absl::OkStatus());
    advance();
  }
  void OnCancel() override {
    const std::scoped_lock lock(mutex_);
    cancelled_ = true;
    if (!writing_) finish(absl::OkStatus());  // nobody reads it
  }
  void OnDone() override {
    watches_.remove(this);
    house_.under_way.fetch_sub(1);
    self_.reset();
  }

 private:
  void tell(HealthCheckResponse::ServingStatus status) {
    const std::scoped_lock lock(mutex_);
    now_ = known_ ? status : HealthCheckResponse::SERVICE_UNKNOWN;
    advance();
  }
  // Both under the lock.
  void advance() {
    if (writing_ || finished_) return;
    if (told_ == now_) {
      if (draining_) finish(error(absl::StatusCode::kUnavailable, "the server stops"));
      return;
    }
    told_ = now_;
    if (absl::Status written = write(*now_, outgoing_); !written.ok()) return finish(written);
    writing_ = true;
    StartWrite(&outgoing_);
  }
  void finish(const absl::Status& status) {
    if (std::exchange(finished_, true)) return;
    Finish(grpc_status(status));
  }

  GrpcHouse& house_;
  OpenStreams& watches_;
  const HealthService::Seen& seen_;
  HeldBytes open_;  // that it is there
  std::shared_ptr<Watcher> self_;
  bool known_ = false;  // the service that is asked about; before tell()

  std::mutex mutex_;
  std::optional<HealthCheckResponse::ServingStatus> now_, told_;
  grpc::ByteBuffer outgoing_;  // while writing_
  bool writing_ = false, draining_ = false, cancelled_ = false, finished_ = false;
};

}  // namespace

HealthService::HealthService(GrpcHouse& house)
    : house_(house),
      heads_(house.budget == nullptr ? nullptr
                                     : std::make_shared<ByteBudget>(
                                           house.budget->limit() / kPartOfWatches, house.budget)) {}

// Once for all who watch.
void HealthService::look() {
  seen_.store(status_of(house_));
  watches_.look();
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  auto name = read_name(request);
  absl::Status status = name.status();
  if (name.ok() && !is_known(*name)) status = not_found("no service '{}'", *name);
  if (status.ok()) status = write(status_of(house_), *response);
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc_status(status));
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext*,
                                                                 const grpc::ByteBuffer* request) {
  auto watcher = std::make_shared<Watcher>(house_, watches_, seen_, heads_);
  watcher->start(request);
  return watcher.get();
}

}  // namespace fermata::serve
