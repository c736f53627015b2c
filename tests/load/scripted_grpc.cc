#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "grpc_service.grpc.pb.h"
#include "load/scripted_server.h"

namespace fermata::load {
namespace {

// Says nothing until the client gives up.
class Silence : public grpc::ServerUnaryReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class Service : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit Service(ScriptedServer::Script script) : script_(std::move(script)) {}
  uint64_t received() const { return received_; }

  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* context,
                                          const inference::ModelMetadataRequest* request,
                                          inference::ModelMetadataResponse* response) override {
    auto* reactor = context->DefaultReactor();
    if (request->name() != "m") {
      reactor->Finish({grpc::StatusCode::NOT_FOUND, "no such service"});
      return reactor;
    }
    auto& input = *response->add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_shape(-1);
    input.add_shape(4);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest*,
                                       inference::ModelInferResponse* response) override {
    const auto reply = script_(received_++);
    if (!reply) return new Silence;
    auto* reactor = context->DefaultReactor();
    if (reply->status.ok()) fill(*reply, *response);
    reactor->Finish({static_cast<grpc::StatusCode>(reply->status.code()),
                     std::string(reply->status.message())});
    return reactor;
  }

 private:
  static void fill(const ScriptedServer::Reply& reply, inference::ModelInferResponse& response) {
    auto& output = *response.add_outputs();
    output.set_name("y");
    output.set_datatype("FP32");
    output.add_shape(1);
    output.add_shape(4);
    float scores[4] = {};
    scores[reply.output] = 1;
    response.add_raw_output_contents(scores, sizeof scores);
    if (reply.batch_items == 0) return;
    auto& parameters = *response.mutable_parameters();
    parameters["batch_size"].set_int64_param(reply.batch_items);
    parameters["queueing_us"].set_int64_param(1500);
    parameters["run_us"].set_int64_param(2500);
  }

  ScriptedServer::Script script_;
  std::atomic<uint64_t> received_ = 0;
};

class GrpcServer : public ScriptedServer {
 public:
  explicit GrpcServer(Script script) : service_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~GrpcServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const override { return "127.0.0.1:" + std::to_string(port_); }
  uint64_t received() const override { return service_.received(); }

 private:
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<ScriptedServer> scripted_grpc(ScriptedServer::Script script) {
  return std::make_unique<GrpcServer>(std::move(script));
}

}  // namespace fermata::load
