#pragma once

#include "reflection.grpc.pb.h"
#include "serve/grpc/grpc_service.h"

namespace fermata::serve {

using Reflection = grpc::reflection::v1alpha::ServerReflection;

// Says which services there are and how their messages look. Messages come as bytes, so that long
// ones, which no question needs, are rejected before they are parsed.
class ReflectionService final
    : public Reflection::WithRawCallbackMethod_ServerReflectionInfo<Reflection::Service> {
 public:
  explicit ReflectionService(GrpcHouse& house) : house_(house) {}
  InferStream* ServerReflectionInfo(grpc::CallbackServerContext* context) override;

 private:
  GrpcHouse& house_;
};

}  // namespace fermata::serve
