#pragma once

#include <grpcpp/grpcpp.h>

#include <utility>

#include "serve/call/status_map.h"
#include "serve/grpc/grpc_service.h"

namespace fermata::serve {

// A call whose answer counts for its address until it is sent.
class Answer final : public grpc::ServerUnaryReactor {
 public:
  // `work` writes to `to`, at once.
  template <class Work>
  static Answer* give(const GrpcHouse& house, grpc::CallbackServerContext& context,
                      const grpc::ByteBuffer& to, Work work) {
    auto* answer = new Answer(house.share_of(context));
    absl::Status status = work();
    if (status.ok()) {
      status = GrpcHouse::hold_answer(answer->share_->answers, answer->unsent_, to.Length());
    }
    answer->Finish(grpc_status(status));
    return answer;
  }
  void OnDone() override { delete this; }
  bool InternalInlineable() override { return true; }  // OnDone is short

 private:
  explicit Answer(GrpcHouse::SharePtr share) : share_(std::move(share)) {}

  const GrpcHouse::SharePtr share_;
  HeldBytes unsent_;
};

}  // namespace fermata::serve
