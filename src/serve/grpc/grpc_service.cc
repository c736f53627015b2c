#include "serve/grpc/grpc_service.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/config/reach.h"
#include "serve/grpc/answer.h"
#include "serve/grpc/grpc_message.h"
#include "serve/operations/settings.h"

namespace fermata::serve {
namespace {

using Context = GrpcService::Context;
using Unary = GrpcService::Unary;
using In = GrpcService::In;
using Out = GrpcService::Out;

// Without an answer.
Unary refuse(Context context, const absl::Status& status) {
  auto* reactor = context->DefaultReactor();
  reactor->Finish(grpc_status(status));
  return reactor;
}

// It is the call's own; emptied, it is not kept beside what is made of it.
grpc::ByteBuffer& own(In message) { return const_cast<grpc::ByteBuffer&>(*message); }

template <class Request>
absl::Status read(const GrpcHouse& house, Context context, In from, Request& request) {
  HeldBytes held;  // small ones are answered though memory is short
  if (from->Length() > GrpcHouse::kSmallMessage || is_packed(own(from))) {
    held = HeldBytes(house.share_of(*context)->budget);
  }
  return read_message(own(from), Operations::kLongestRequest, held, request);
}

absl::Status write(const google::protobuf::Message& response, Out to) {
  HeldBytes uncounted;  // what the server says of itself
  return write_message(response, uncounted, *to);
}

template <class Request, class Response, class Call>
absl::Status answer(const GrpcHouse& house, Context context, In from, Out to, Call call) {
  Request request;
  Response response;
  RETURN_IF_ERROR(read(house, context, from, request));
  RETURN_IF_ERROR(std::invoke(call, house.operations, request, response));
  return write(response, to);
}

template <class Request, class Response>
Unary ask(const GrpcHouse& house, Context context, In from, Out to,
          absl::Status (Operations::*call)(const Request&, Response&) const) {
  return Answer::give(house, *context, *to,
                      [&] { return answer<Request, Response>(house, context, from, to, call); });
}

// The same of a function that takes the operations.
template <class Request, class Response>
Unary ask_of(const GrpcHouse& house, Context context, In from, Out to,
             absl::Status (*call)(const Operations&, const Request&, Response&)) {
  return Answer::give(house, *context, *to,
                      [&] { return answer<Request, Response>(house, context, from, to, call); });
}

// The same where administrative calls are answered.
template <class Request, class Response, class Call>
Unary ask_admin(const GrpcHouse& house, Context context, In from, Out to, Call call) {
  if (!house.admin) return refuse(context, admin_is_off());
  return Answer::give(house, *context, *to,
                      [&] { return answer<Request, Response>(house, context, from, to, call); });
}

// Under way until its answer is sent.
class LaterAnswer final : public grpc::ServerUnaryReactor {
 public:
  explicit LaterAnswer(GrpcHouse& house) : house_(house) {
    house_.under_way.fetch_add(1, std::memory_order_relaxed);
  }
  void OnDone() override {
    house_.under_way.fetch_sub(1, std::memory_order_relaxed);
    delete this;
  }

 private:
  GrpcHouse& house_;
};

// A load or an unload, whose response is empty and comes later.
template <class Request, class Response>
Unary begin(GrpcHouse& house, Context context, In from, Out to,
            void (Operations::*call)(const Request&, Operations::Done)) {
  Request request;
  absl::Status bad = house.admin ? read(house, context, from, request) : admin_is_off();
  if (bad.ok()) bad = write(Response(), to);
  if (!bad.ok()) return refuse(context, bad);
  auto* reactor = new LaterAnswer(house);
  (house.operations.*call)(
      request, [reactor](absl::Status status) { reactor->Finish(grpc_status(status)); });
  return reactor;
}

// Of a call that asks nothing of the server.
template <class Response>
Unary say(const GrpcHouse& house, Context context, Out to, const Response& response) {
  return Answer::give(house, *context, *to, [&] { return write(response, to); });
}

}  // namespace

GrpcService::GrpcService(GrpcHouse& house) : house_(house) {}

Unary GrpcService::ServerLive(Context context, In, Out to) {
  inference::ServerLiveResponse response;
  response.set_live(true);
  return say(house_, context, to, response);
}

Unary GrpcService::ServerReady(Context context, In, Out to) {
  inference::ServerReadyResponse response;
  response.set_ready(house_.operations.ready().ready);
  return say(house_, context, to, response);
}

Unary GrpcService::ModelReady(Context context, In from, Out to) {
  return ask(house_, context, from, to, &Operations::model_ready);
}

Unary GrpcService::ServerMetadata(Context context, In from, Out to) {
  return ask(house_, context, from, to, &Operations::server_metadata);
}

Unary GrpcService::ModelMetadata(Context context, In from, Out to) {
  return ask(house_, context, from, to, &Operations::model_metadata);
}

Unary GrpcService::ModelInfer(Context context, In from, Out to) {
  return start_infer(house_, *context, own(from), *to);
}

InferStream* GrpcService::ModelStreamInfer(Context context) {
  return start_stream(house_, *context);
}

Unary GrpcService::ModelConfig(Context context, In from, Out to) {
  return ask(house_, context, from, to, &Operations::model_config);
}

Unary GrpcService::ModelStatistics(Context context, In from, Out to) {
  return ask(house_, context, from, to, &Operations::model_statistics);
}

Unary GrpcService::RepositoryIndex(Context context, In from, Out to) {
  return ask(house_, context, from, to, &Operations::repository_index);
}

Unary GrpcService::RepositoryModelLoad(Context context, In from, Out to) {
  return begin<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>(
      house_, context, from, to, &Operations::load);
}

Unary GrpcService::RepositoryModelUnload(Context context, In from, Out to) {
  return begin<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      house_, context, from, to, &Operations::unload);
}

Unary GrpcService::SystemSharedMemoryStatus(Context context, In from, Out to) {
  return ask_admin<inference::SystemSharedMemoryStatusRequest,
                   inference::SystemSharedMemoryStatusResponse>(house_, context, from, to,
                                                                &Operations::shared_memory_status);
}

Unary GrpcService::SystemSharedMemoryRegister(Context context, In from, Out to) {
  return ask_admin<inference::SystemSharedMemoryRegisterRequest,
                   inference::SystemSharedMemoryRegisterResponse>(
      house_, context, from, to, &Operations::shared_memory_register);
}

Unary GrpcService::SystemSharedMemoryUnregister(Context context, In from, Out to) {
  return ask_admin<inference::SystemSharedMemoryUnregisterRequest,
                   inference::SystemSharedMemoryUnregisterResponse>(
      house_, context, from, to, &Operations::shared_memory_unregister);
}

Unary GrpcService::CudaSharedMemoryStatus(Context context, In, Out to) {
  return say(house_, context, to, inference::CudaSharedMemoryStatusResponse());
}

Unary GrpcService::CudaSharedMemoryRegister(Context context, In, Out) {
  return refuse(context, house_.operations.cuda_memory_register());
}

Unary GrpcService::CudaSharedMemoryUnregister(Context context, In, Out to) {
  return say(house_, context, to, inference::CudaSharedMemoryUnregisterResponse());
}

Unary GrpcService::TraceSetting(Context context, In from, Out to) {
  return ask_of<inference::TraceSettingRequest, inference::TraceSettingResponse>(
      house_, context, from, to, trace_setting);
}

Unary GrpcService::LogSettings(Context context, In from, Out to) {
  return ask_of<inference::LogSettingsRequest, inference::LogSettingsResponse>(
      house_, context, from, to, log_settings);
}

}  // namespace fermata::serve
