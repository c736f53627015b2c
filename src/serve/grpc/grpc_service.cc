#include "serve/grpc/grpc_service.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/config/reach.h"

namespace fermata::serve {
namespace {

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc_status(status));
  return reactor;
}

// Runs `call` where administrative calls are answered.
template <class Call>
grpc::ServerUnaryReactor* finish_admin(const GrpcHouse& house, grpc::CallbackServerContext* context,
                                       Call call) {
  return finish(context, house.admin ? call() : admin_is_off());
}

Operations::Done finish_when_done(grpc::ServerUnaryReactor* reactor) {
  return [reactor](absl::Status status) { reactor->Finish(grpc_status(status)); };
}

}  // namespace

GrpcService::GrpcService(GrpcHouse& house) : house_(house) {}

using Unary = GrpcService::Unary;
using Context = GrpcService::Context;
template <class Message>
using In = const Message*;

Unary GrpcService::ServerLive(Context context, In<inference::ServerLiveRequest>,
                              inference::ServerLiveResponse* response) {
  response->set_live(true);
  return finish(context, absl::OkStatus());
}

Unary GrpcService::ServerReady(Context context, In<inference::ServerReadyRequest>,
                               inference::ServerReadyResponse* response) {
  response->set_ready(house_.operations.ready());
  return finish(context, absl::OkStatus());
}

Unary GrpcService::ModelReady(Context context, In<inference::ModelReadyRequest> request,
                              inference::ModelReadyResponse* response) {
  return finish(context, house_.operations.model_ready(*request, *response));
}

Unary GrpcService::ServerMetadata(Context context, In<inference::ServerMetadataRequest> request,
                                  inference::ServerMetadataResponse* response) {
  return finish(context, house_.operations.server_metadata(*request, *response));
}

Unary GrpcService::ModelMetadata(Context context, In<inference::ModelMetadataRequest> request,
                                 inference::ModelMetadataResponse* response) {
  return finish(context, house_.operations.model_metadata(*request, *response));
}

Unary GrpcService::ModelInfer(Context context, In<grpc::ByteBuffer> request,
                              grpc::ByteBuffer* response) {
  // It is this call's own; emptied, it is not kept beside what is made of it.
  return start_infer(house_, *context, const_cast<grpc::ByteBuffer&>(*request), *response);
}

InferStream* GrpcService::ModelStreamInfer(Context context) {
  return start_stream(house_, *context);
}

Unary GrpcService::ModelConfig(Context context, In<inference::ModelConfigRequest> request,
                               inference::ModelConfigResponse* response) {
  return finish(context, house_.operations.model_config(*request, *response));
}

Unary GrpcService::ModelStatistics(Context context, In<inference::ModelStatisticsRequest> request,
                                   inference::ModelStatisticsResponse* response) {
  return finish(context, house_.operations.model_statistics(*request, *response));
}

Unary GrpcService::RepositoryIndex(Context context, In<inference::RepositoryIndexRequest> request,
                                   inference::RepositoryIndexResponse* response) {
  return finish(context, house_.operations.repository_index(*request, *response));
}

Unary GrpcService::RepositoryModelLoad(Context context,
                                       In<inference::RepositoryModelLoadRequest> request,
                                       inference::RepositoryModelLoadResponse*) {
  if (!house_.admin) return finish(context, admin_is_off());
  auto* reactor = context->DefaultReactor();
  house_.operations.load(*request, finish_when_done(reactor));
  return reactor;
}

Unary GrpcService::RepositoryModelUnload(Context context,
                                         In<inference::RepositoryModelUnloadRequest> request,
                                         inference::RepositoryModelUnloadResponse*) {
  if (!house_.admin) return finish(context, admin_is_off());
  auto* reactor = context->DefaultReactor();
  house_.operations.unload(*request, finish_when_done(reactor));
  return reactor;
}

Unary GrpcService::SystemSharedMemoryStatus(Context context,
                                            In<inference::SystemSharedMemoryStatusRequest> request,
                                            inference::SystemSharedMemoryStatusResponse* response) {
  return finish_admin(house_, context,
                      [&] { return house_.operations.shared_memory_status(*request, *response); });
}

Unary GrpcService::SystemSharedMemoryRegister(
    Context context, In<inference::SystemSharedMemoryRegisterRequest> request,
    inference::SystemSharedMemoryRegisterResponse* response) {
  return finish_admin(house_, context, [&] {
    return house_.operations.shared_memory_register(*request, *response);
  });
}

Unary GrpcService::SystemSharedMemoryUnregister(
    Context context, In<inference::SystemSharedMemoryUnregisterRequest> request,
    inference::SystemSharedMemoryUnregisterResponse* response) {
  return finish_admin(house_, context, [&] {
    return house_.operations.shared_memory_unregister(*request, *response);
  });
}

Unary GrpcService::CudaSharedMemoryStatus(Context context,
                                          In<inference::CudaSharedMemoryStatusRequest>,
                                          inference::CudaSharedMemoryStatusResponse*) {
  return finish(context, absl::OkStatus());
}

Unary GrpcService::CudaSharedMemoryRegister(Context context,
                                            In<inference::CudaSharedMemoryRegisterRequest>,
                                            inference::CudaSharedMemoryRegisterResponse*) {
  return finish(context, house_.operations.cuda_memory_register());
}

Unary GrpcService::CudaSharedMemoryUnregister(Context context,
                                              In<inference::CudaSharedMemoryUnregisterRequest>,
                                              inference::CudaSharedMemoryUnregisterResponse*) {
  return finish(context, absl::OkStatus());
}

Unary GrpcService::TraceSetting(Context context, In<inference::TraceSettingRequest>,
                                inference::TraceSettingResponse*) {
  return finish(context, unimplemented("tracing is not served"));
}

Unary GrpcService::LogSettings(Context context, In<inference::LogSettingsRequest>,
                               inference::LogSettingsResponse*) {
  return finish(context, unimplemented("log settings are those of the configuration file"));
}

}  // namespace fermata::serve
