#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/byte_budget.h"
#include "serve/grpc/grpc_service.h"
#include "serve/grpc/open_streams.h"

namespace fermata::serve {

// A call whose client is told something now, and again whenever it has changed and look() is
// called. Calls of gRPC and of OpenStreams keep it alive.
class Watch final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                    public OpenStreams::Stream,
                    public std::enable_shared_from_this<Watch> {
 public:
  using Message = std::function<std::string()>;  // as bytes; of any thread

  // Ends with `bad` at once, where it is not OK, or with RESOURCE_EXHAUSTED where the watches of
  // its address, or all, have no room for it. All outlive it.
  static Watch* start(GrpcHouse& house, grpc::CallbackServerContext& context, OpenStreams& watches,
                      absl::Status bad, Message message);

  void look() override;
  // Tells what has changed, and ends: UNAVAILABLE.
  void drain() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  Watch(GrpcHouse& house, OpenStreams& watches, std::shared_ptr<ByteBudget> budget, Message message)
      : house_(house), watches_(watches), message_(std::move(message)), open_(std::move(budget)) {}
  // Both under the lock.
  void advance();
  void finish(const absl::Status& status);

  GrpcHouse& house_;
  OpenStreams& watches_;
  const Message message_;
  HeldBytes open_;  // that it is there
  std::shared_ptr<Watch> self_;

  std::mutex mutex_;
  std::optional<std::string> now_, told_;
  grpc::ByteBuffer outgoing_;  // while writing_
  bool writing_ = false, draining_ = false, cancelled_ = false, finished_ = false;
};

}  // namespace fermata::serve
