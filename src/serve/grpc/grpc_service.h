#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/byte_budget.h"
#include "engine/engine.h"
#include "grpc_service.grpc.pb.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"
#include "serve/grpc/grpc_connections.h"
#include "serve/grpc/open_streams.h"
#include "serve/net/background.h"
#include "serve/net/counters.h"
#include "serve/operations/operations.h"

namespace fermata::serve {

// What a call of gRPC needs from the house; all outlive it.
struct GrpcHouse {
  engine::Engine& engine;
  Operations& operations;
  const SharedMemory& regions;
  const bool admin;
  const size_t max_message_bytes;
  GrpcConnections& connections;              // knows what each may hold
  const std::shared_ptr<ByteBudget> budget;  // of all calls
  const size_t stream_bytes;
  FrontEndCounters counters;
  OpenStreams streams;
  std::atomic<uint64_t> under_way = 0;  // calls that somebody works on, or whose answer is sent
  std::atomic<bool> refusing = false;   // new infer calls, since the server stops

  static constexpr uint64_t kStreamHolds = 20 * 1024;
  struct Packed;
  // Messages to unpack, by connection: of each one after the other, so that few are half unpacked.
  // One that is here has one under way.
  struct Turns {
    std::mutex mutex;
    absl::flat_hash_map<uint64_t, std::deque<std::unique_ptr<Packed>>> waiting;
    Turns();
    ~Turns();
  };
  Turns unpacking;
  // For what takes long, which gRPC's own threads must not do.
  Background background{3};

  using SharePtr = GrpcConnections::SharePtr;
  static constexpr size_t kSmallMessage = 4 * 1024;
  // Of who sends a message.
  SharePtr share_of(grpc::ServerContextBase& context) const;
  // What a message and the reply to it are held against: small ones, of which a connection has few
  // at a time, against what all may hold. `is_late`: it has to be unpacked.
  const std::shared_ptr<ByteBudget>& budget_of(const GrpcConnections::Share& share, size_t message,
                                               bool is_late) const {
    return message <= kSmallMessage && !is_late ? budget : share.budget;
  }
  // Takes into `open` what gRPC and we take for a stream, whether or not a message ever comes of
  // it: of the same address, and else of all, idle ones make room. RESOURCE_EXHAUSTED where that
  // is not enough.
  absl::Status hold_stream(std::shared_ptr<ByteBudget> of_address, HeldBytes& open);

  // Takes into `unsent`, of a connection's answers, what gRPC holds for one until it is sent: its
  // client need not take it. `bytes`: of it, where nothing else counts them. RESOURCE_EXHAUSTED
  // where its address has too many, unless the connection has few: a client that takes them has.
  static constexpr uint64_t kFewAnswers = 64 * kStreamHolds;
  static absl::Status hold_answer(const std::shared_ptr<ByteBudget>& answers, HeldBytes& unsent,
                                  uint64_t bytes = 0);

  // Of a message: who sent it, when, and how long its client waits.
  struct Arrived {
    const Client& client;  // lives until the message is decoded
    Time at, cutoff;
  };
  Arrived arrived(const grpc::ServerContextBase& context, const Client& client) const;
  using Decoded = absl::AnyInvocable<void(absl::StatusOr<InferCall>&&, std::string id)>;
  // Decodes a message as it came, and completes what only the engine and the transport know: here,
  // or on a background thread where it is packed, which `is_late` says. Empties `bytes`; `held`,
  // which lives until then, has grown by what was taken.
  void decode(grpc::ByteBuffer& bytes, bool is_late, HeldBytes& held, const Arrived& from,
              Decoded then);

 private:
  void unpack(std::unique_ptr<Packed> packed);
  void unpack_next(uint64_t connection);
  absl::StatusOr<InferCall> complete(std::shared_ptr<inference::ModelInferRequest> message,
                                     const Arrived& from, HeldBytes& held) const;
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
