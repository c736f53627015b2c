// A bare gRPC server on the callback API that answers an infer request with its
// own tensors: what gRPC and these messages alone cost.
//
//   bench_echo_grpc PORT
#include <grpcpp/grpcpp.h>

#include <iostream>
#include <string>

#include "grpc_service.grpc.pb.h"

namespace {

class Echo final : public inference::GRPCInferenceService::CallbackService {
 public:
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* response) override {
    response->set_model_name(request->model_name());
    response->set_id(request->id());
    for (const auto& input : request->inputs()) {
      auto& output = *response->add_outputs();
      output.set_name(input.name());
      output.set_datatype(input.datatype());
      *output.mutable_shape() = input.shape();
    }
    *response->mutable_raw_output_contents() = request->raw_input_contents();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_echo_grpc PORT\n";
    return 2;
  }
  Echo service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::string(argv[1]), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.BuildAndStart()->Wait();
}
