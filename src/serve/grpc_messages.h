#pragma once

#include <grpcpp/support/message_allocator.h>

#include <memory>

#include "grpc_service.pb.h"

namespace fermata::serve {

// The two messages of a unary infer call. gRPC lets go of them when the call
// ends; payloads that are views into the request keep them a little longer.
class InferMessages final
    : public grpc::MessageHolder<inference::ModelInferRequest, inference::ModelInferResponse> {
 public:
  static InferMessages* make() {
    auto made = std::make_shared<InferMessages>();
    made->self_ = made;
    return made.get();
  }
  InferMessages() {
    set_request(&request_);
    set_response(&response_);
  }
  void Release() override { self_.reset(); }

  // The request, keeping both alive.
  std::shared_ptr<const inference::ModelInferRequest> share_request() const {
    return {self_, &request_};
  }

 private:
  inference::ModelInferRequest request_;
  inference::ModelInferResponse response_;
  std::shared_ptr<InferMessages> self_;
};

class InferMessageAllocator final
    : public grpc::MessageAllocator<inference::ModelInferRequest, inference::ModelInferResponse> {
 public:
  grpc::MessageHolder<inference::ModelInferRequest, inference::ModelInferResponse>*
  AllocateMessages() override {
    return InferMessages::make();
  }
};

}  // namespace fermata::serve
