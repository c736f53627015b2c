#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/call/stream_parameters.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/grpc/grpc_listener.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/grpc_service.h"

namespace fermata::serve {
namespace {

// A client's own deadline, on the engine's clock.
Time cutoff_of(const grpc::ServerContextBase& context, Time now) {
  constexpr int64_t kLongestS = 1'000'000'000;  // beyond some thirty years: none
  const gpr_timespec left =
      gpr_time_sub(gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_REALTIME),
                   gpr_now(GPR_CLOCK_REALTIME));
  if (left.tv_sec > kLongestS) return Time::infinite();
  return now + Duration::seconds(left.tv_sec) + Duration::nanos(left.tv_nsec);
}

// Why there is no answer; longer metadata fail calls.
constexpr char kWhy[] = "fermata-explain";
constexpr size_t kLongestWhy = 4096;

// One unary call. gRPC calls neither OnCancel nor OnDone before the method that
// made it has returned, so start() is over by then, even if the reply has come.
class UnaryInfer final : public grpc::ServerUnaryReactor {
 public:
  UnaryInfer(GrpcHouse& house, grpc::CallbackServerContext& context, grpc::ByteBuffer& response)
      : house_(house), context_(context), response_(response) {
    house_.under_way.fetch_add(1);
  }

  void start(grpc::ByteBuffer& request) {
    house_.counters.begin();
    if (house_.refusing.load()) {  // and those who stop it do not wait for this one
      is_under_way_ = false;
      house_.under_way.fetch_sub(1);
      house_.counters.reject();
      return finish(error(absl::StatusCode::kUnavailable, "the server stops"));
    }
    held_ = HeldBytes(house_.budget_of(context_, request));
    auto call = house_.decode(request, held_, context_, nullptr);
    if (!call.ok()) {
      house_.counters.reject();
      return finish(call.status());
    }
    wishes_ = std::move(call->wishes);
    set_client(house_.listener.client_of(context_.peer()), call->request);
    job_ = house_.engine.submit(std::move(call->request),
                                [this](engine::ReplyPart part) { answer(std::move(part)); });
  }

  void OnCancel() override {
    if (!job_.is_none()) house_.engine.cancel(job_);
  }
  void OnDone() override {
    if (is_under_way_) house_.under_way.fetch_sub(1);
    delete this;
  }
  // Both are short and never block: gRPC may run them where it is, instead of
  // waking a thread of its executor for each.
  bool InternalInlineable() override { return true; }

 private:
  void answer(engine::ReplyPart part) {
    absl::Status status = part.status;
    if (!status.ok() && wishes_.explain) {
      const std::string why = encode_why_metadata(part);
      if (why.size() <= kLongestWhy) context_.AddTrailingMetadata(kWhy, why);
    } else if (status.ok()) {
      inference::ModelInferResponse response;
      status = encode_grpc_reply(std::move(part), wishes_, house_.regions, response);
      if (status.ok()) status = write_message(response, held_, response_);
    }
    finish(status);
  }
  void finish(const absl::Status& status) {
    FrontEndCounters& counters = house_.counters;  // Finish may end this object
    Finish(grpc_status(status));
    counters.end();
  }

  GrpcHouse& house_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  HeldBytes held_;  // the request and its reply
  ReplyWishes wishes_;
  JobId job_;
  bool is_under_way_ = true;
};

}  // namespace

std::shared_ptr<ByteBudget> GrpcHouse::budget_of(const grpc::ServerContextBase& context,
                                                 grpc::ByteBuffer& message) const {
  constexpr size_t kSmall = 4 * 1024;
  const bool is_small = message.Length() <= kSmall && !is_packed(message);
  return is_small ? budget : listener.budget_of(context.peer());
}

absl::Status GrpcHouse::hold_stream(HeldBytes& open) {
  open = HeldBytes(stream_heads);
  while (!open.grow_to(kStreamHolds)) {
    if (streams.end_unused()) continue;
    return error(absl::StatusCode::kResourceExhausted,
                 "streams hold an eighth of listen.memory_mb; try again later");
  }
  return absl::OkStatus();
}

absl::StatusOr<InferCall> GrpcHouse::decode(grpc::ByteBuffer& bytes, HeldBytes& held,
                                            const grpc::ServerContextBase& context,
                                            std::string* id) const {
  const Time arrival = engine.now();
  auto message = std::make_shared<inference::ModelInferRequest>();
  RETURN_IF_ERROR(read_message(bytes, max_message_bytes, held, *message));
  if (id != nullptr) *id = message->id();
  ASSIGN_OR_RETURN(InferCall call, decode_grpc_infer(std::move(message), regions));
  RETURN_IF_ERROR(regions.fetch(call));
  call.request.arrival = arrival;
  call.request.cutoff = cutoff_of(context, arrival);
  if (call.wishes.classifies()) {
    ASSIGN_OR_RETURN(call.wishes.classifier,
                     engine.catalog()->find(call.request.service, call.request.version));
  }
  return call;
}

grpc::ServerUnaryReactor* start_infer(GrpcHouse& house, grpc::CallbackServerContext& context,
                                      grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  auto* infer = new UnaryInfer(house, context, response);
  infer->start(request);
  return infer;
}

}  // namespace fermata::serve
