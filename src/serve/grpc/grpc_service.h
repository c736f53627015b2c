#pragma once

#include "base/byte_budget.h"
#include "engine/engine.h"
#include "grpc_service.grpc.pb.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"
#include "serve/net/counters.h"
#include "serve/operations/operations.h"

namespace fermata::serve {

class GrpcListener;

// What a call of gRPC needs from the house; all outlive it.
struct GrpcHouse {
  engine::Engine& engine;
  Operations& operations;
  const SharedMemory& regions;
  const bool admin;
  const size_t max_message_bytes;
  GrpcListener& listener;                    // knows what each connection may hold
  const std::shared_ptr<ByteBudget> budget;  // of all calls
  const size_t stream_bytes;
  FrontEndCounters counters;

  // What a message of these bytes, and the reply to it, are held against: small ones, of which a
  // connection has few at a time, against what all may hold.
  std::shared_ptr<ByteBudget> budget_of(const grpc::ServerContextBase& context, size_t bytes) const;
  // Decodes a message as it came, and completes what only the engine and the transport know.
  // Empties `bytes`; `held` has grown by what was taken.
  absl::StatusOr<InferCall> decode(grpc::ByteBuffer& bytes, HeldBytes& held,
                                   const grpc::ServerContextBase& context, std::string* id) const;
};

using InferStream = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
grpc::ServerUnaryReactor* start_infer(GrpcHouse& house, grpc::CallbackServerContext& context,
                                      grpc::ByteBuffer& request, grpc::ByteBuffer& response);
InferStream* start_stream(GrpcHouse& house, grpc::CallbackServerContext& context);

// The calls of a service, each added to Base by a template that protoc made.
template <class Base, template <class> class... Calls>
struct WithCalls {
  using type = Base;
};
template <class Base, template <class> class First, template <class> class... Others>
struct WithCalls<Base, First, Others...> {
  using type = First<typename WithCalls<Base, Others...>::type>;
};

// Infer messages come as bytes, so that they are weighed before they are unpacked.
using Protocol = inference::GRPCInferenceService;
using CallsOfProtocol = WithCalls<
    Protocol::Service, Protocol::WithRawCallbackMethod_ModelInfer,
    Protocol::WithRawCallbackMethod_ModelStreamInfer, Protocol::WithCallbackMethod_ServerLive,
    Protocol::WithCallbackMethod_ServerReady, Protocol::WithCallbackMethod_ModelReady,
    Protocol::WithCallbackMethod_ServerMetadata, Protocol::WithCallbackMethod_ModelMetadata,
    Protocol::WithCallbackMethod_ModelConfig, Protocol::WithCallbackMethod_ModelStatistics,
    Protocol::WithCallbackMethod_RepositoryIndex, Protocol::WithCallbackMethod_RepositoryModelLoad,
    Protocol::WithCallbackMethod_RepositoryModelUnload,
    Protocol::WithCallbackMethod_SystemSharedMemoryStatus,
    Protocol::WithCallbackMethod_SystemSharedMemoryRegister,
    Protocol::WithCallbackMethod_SystemSharedMemoryUnregister,
    Protocol::WithCallbackMethod_CudaSharedMemoryStatus,
    Protocol::WithCallbackMethod_CudaSharedMemoryRegister,
    Protocol::WithCallbackMethod_CudaSharedMemoryUnregister,
    Protocol::WithCallbackMethod_TraceSetting, Protocol::WithCallbackMethod_LogSettings>::type;

class GrpcService final : public CallsOfProtocol {
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
  Unary ModelInfer(Context, In<grpc::ByteBuffer>, grpc::ByteBuffer*) override;
  InferStream* ModelStreamInfer(Context) override;
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
};

}  // namespace fermata::serve
