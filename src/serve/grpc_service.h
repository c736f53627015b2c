#pragma once

#include "engine/engine.h"
#include "grpc_service.grpc.pb.h"
#include "serve/counters.h"
#include "serve/grpc_messages.h"
#include "serve/operations.h"
#include "serve/shared_memory.h"

namespace fermata::serve {

// What a call of gRPC needs from the house; all outlive it.
struct GrpcHouse {
  engine::Engine& engine;
  Operations& operations;
  const SharedMemory& regions;
  FrontEndCounters counters;

  // Decodes, and completes what only the engine and the transport know.
  absl::StatusOr<InferCall> decode(std::shared_ptr<const inference::ModelInferRequest> message,
                                   const grpc::ServerContextBase& context, Time arrival) const;
};

grpc::ServerUnaryReactor* start_infer(GrpcHouse& house, grpc::CallbackServerContext& context);
grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
start_stream(GrpcHouse& house, grpc::CallbackServerContext& context);

class GrpcService final : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit GrpcService(GrpcHouse& house);

  template <class Message>
  using In = const Message*;
  using Context = grpc::CallbackServerContext*;
  using Unary = grpc::ServerUnaryReactor*;

  Unary ServerLive(Context, In<inference::ServerLiveRequest>,
                   inference::ServerLiveResponse*) override;
  Unary ServerReady(Context, In<inference::ServerReadyRequest>,
                    inference::ServerReadyResponse*) override;
  Unary ModelReady(Context, In<inference::ModelReadyRequest>,
                   inference::ModelReadyResponse*) override;
  Unary ServerMetadata(Context, In<inference::ServerMetadataRequest>,
                       inference::ServerMetadataResponse*) override;
  Unary ModelMetadata(Context, In<inference::ModelMetadataRequest>,
                      inference::ModelMetadataResponse*) override;
  Unary ModelInfer(Context, In<inference::ModelInferRequest>,
                   inference::ModelInferResponse*) override;
  grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>*
      ModelStreamInfer(Context) override;
  Unary ModelConfig(Context, In<inference::ModelConfigRequest>,
                    inference::ModelConfigResponse*) override;
  Unary ModelStatistics(Context, In<inference::ModelStatisticsRequest>,
                        inference::ModelStatisticsResponse*) override;
  Unary RepositoryIndex(Context, In<inference::RepositoryIndexRequest>,
                        inference::RepositoryIndexResponse*) override;
  Unary RepositoryModelLoad(Context, In<inference::RepositoryModelLoadRequest>,
                            inference::RepositoryModelLoadResponse*) override;
  Unary RepositoryModelUnload(Context, In<inference::RepositoryModelUnloadRequest>,
                              inference::RepositoryModelUnloadResponse*) override;
  Unary SystemSharedMemoryStatus(Context, In<inference::SystemSharedMemoryStatusRequest>,
                                 inference::SystemSharedMemoryStatusResponse*) override;
  Unary SystemSharedMemoryRegister(Context, In<inference::SystemSharedMemoryRegisterRequest>,
                                   inference::SystemSharedMemoryRegisterResponse*) override;
  Unary SystemSharedMemoryUnregister(Context, In<inference::SystemSharedMemoryUnregisterRequest>,
                                     inference::SystemSharedMemoryUnregisterResponse*) override;
  Unary CudaSharedMemoryStatus(Context, In<inference::CudaSharedMemoryStatusRequest>,
                               inference::CudaSharedMemoryStatusResponse*) override;
  Unary CudaSharedMemoryRegister(Context, In<inference::CudaSharedMemoryRegisterRequest>,
                                 inference::CudaSharedMemoryRegisterResponse*) override;
  Unary CudaSharedMemoryUnregister(Context, In<inference::CudaSharedMemoryUnregisterRequest>,
                                   inference::CudaSharedMemoryUnregisterResponse*) override;
  Unary TraceSetting(Context, In<inference::TraceSettingRequest>,
                     inference::TraceSettingResponse*) override;
  Unary LogSettings(Context, In<inference::LogSettingsRequest>,
                    inference::LogSettingsResponse*) override;

 private:
  GrpcHouse& house_;
  InferMessageAllocator allocator_;
};

}  // namespace fermata::serve
