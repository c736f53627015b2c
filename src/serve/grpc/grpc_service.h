#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/byte_budget.h"
#include "engine/engine.h"
#include "grpc_service.grpc.pb.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"
#include "serve/grpc/open_streams.h"
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
  OpenStreams streams;
  std::atomic<uint64_t> under_way = 0;  // calls that somebody works on, or whose answer is sent
  std::atomic<bool> refusing = false;   // new infer calls, since the server stops

  // Of it, what streams take as soon as they are opened.
  const std::shared_ptr<ByteBudget> stream_heads =
      budget == nullptr ? nullptr
                        : std::make_shared<ByteBudget>(budget->limit() / kPartOfStreams, budget);
  static constexpr uint64_t kPartOfStreams = 8;
  static constexpr uint64_t kStreamHolds = 20 * 1024;

  // What a message and the reply to it are held against: small ones, of which a connection has few
  // at a time, against what all may hold.
  std::shared_ptr<ByteBudget> budget_of(const grpc::ServerContextBase& context,
                                        grpc::ByteBuffer& message) const;
  // Takes into `open` what gRPC and we take for a stream, whether or not a message ever comes of
  // it: the oldest of which none has come make room. RESOURCE_EXHAUSTED where that is not enough.
  absl::Status hold_stream(HeldBytes& open);
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

// Messages come as bytes, so that they are weighed before they are parsed.
using Protocol = inference::GRPCInferenceService;
using CallsOfProtocol = WithCalls<
    Protocol::Service, Protocol::WithRawCallbackMethod_ServerLive,
    Protocol::WithRawCallbackMethod_ServerReady, Protocol::WithRawCallbackMethod_ModelReady,
    Protocol::WithRawCallbackMethod_ServerMetadata, Protocol::WithRawCallbackMethod_ModelMetadata,
    Protocol::WithRawCallbackMethod_ModelInfer, Protocol::WithRawCallbackMethod_ModelConfig,
    Protocol::WithRawCallbackMethod_ModelStatistics,
    Protocol::WithRawCallbackMethod_RepositoryIndex,
    Protocol::WithRawCallbackMethod_RepositoryModelLoad,
    Protocol::WithRawCallbackMethod_RepositoryModelUnload,
    Protocol::WithRawCallbackMethod_SystemSharedMemoryStatus,
    Protocol::WithRawCallbackMethod_SystemSharedMemoryRegister,
    Protocol::WithRawCallbackMethod_SystemSharedMemoryUnregister,
    Protocol::WithRawCallbackMethod_CudaSharedMemoryStatus,
    Protocol::WithRawCallbackMethod_CudaSharedMemoryRegister,
    Protocol::WithRawCallbackMethod_CudaSharedMemoryUnregister,
    Protocol::WithRawCallbackMethod_TraceSetting, Protocol::WithRawCallbackMethod_LogSettings,
    Protocol::WithRawCallbackMethod_ModelStreamInfer>::type;

class GrpcService final : public CallsOfProtocol {
 public:
  explicit GrpcService(GrpcHouse& house);

  using Context = grpc::CallbackServerContext*;
  using Unary = grpc::ServerUnaryReactor*;
  using In = const grpc::ByteBuffer*;
  using Out = grpc::ByteBuffer*;

  Unary ServerLive(Context, In, Out) override;
  Unary ServerReady(Context, In, Out) override;
  Unary ModelReady(Context, In, Out) override;
  Unary ServerMetadata(Context, In, Out) override;
  Unary ModelMetadata(Context, In, Out) override;
  Unary ModelInfer(Context, In, Out) override;
  Unary ModelConfig(Context, In, Out) override;
  Unary ModelStatistics(Context, In, Out) override;
  Unary RepositoryIndex(Context, In, Out) override;
  Unary RepositoryModelLoad(Context, In, Out) override;
  Unary RepositoryModelUnload(Context, In, Out) override;
  Unary SystemSharedMemoryStatus(Context, In, Out) override;
  Unary SystemSharedMemoryRegister(Context, In, Out) override;
  Unary SystemSharedMemoryUnregister(Context, In, Out) override;
  Unary CudaSharedMemoryStatus(Context, In, Out) override;
  Unary CudaSharedMemoryRegister(Context, In, Out) override;
  Unary CudaSharedMemoryUnregister(Context, In, Out) override;
  Unary TraceSetting(Context, In, Out) override;
  Unary LogSettings(Context, In, Out) override;
  InferStream* ModelStreamInfer(Context) override;

 private:
  GrpcHouse& house_;
};

}  // namespace fermata::serve
