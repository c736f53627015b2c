#include "load/grpc_transport.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "grpc_service.grpc.pb.h"
#include "load/grpc_codec.h"

namespace fermata::load {
namespace {

constexpr char kInfer[] = "/inference.GRPCInferenceService/ModelInfer";
// Streams share a connection's flow control and many servers allow a hundred.
constexpr uint32_t kStreamsPerConnection = 90;

absl::Status status_of(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

GrpcTransport::GrpcTransport(std::string address, Listener& listener)
    : address_(std::move(address)), listener_(listener), thread_([this] { complete(); }) {}

GrpcTransport::~GrpcTransport() {
  abandon();
  queue_.Shutdown();
  thread_.join();
}

GrpcTransport::Lane& GrpcTransport::open_lane() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return lanes_.emplace_back(
      grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments));
}

GrpcTransport::Lane& GrpcTransport::pick_lane() {
  const auto free = std::min_element(
      lanes_.begin(), lanes_.end(),
      [](const Lane& a, const Lane& b) { return a.in_flight.load() < b.in_flight.load(); });
  if (free == lanes_.end() || free->in_flight >= kStreamsPerConnection) return open_lane();
  return *free;
}

absl::StatusOr<std::vector<InputInfo>> GrpcTransport::inputs_of(const std::string& service,
                                                                const std::string& version) {
  const auto stub = inference::GRPCInferenceService::NewStub(pick_lane().channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kMetadataTimeout);
  inference::ModelMetadataRequest request;
  request.set_name(service);
  request.set_version(version);
  inference::ModelMetadataResponse response;
  const grpc::Status status = stub->ModelMetadata(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return error(absl::StatusCode::kUnavailable, "no answer within five seconds");
  }
  if (!status.ok()) return status_of(status);
  return decode_metadata(response);
}

uint32_t GrpcTransport::prepare(const Question& question) {
  const grpc::Slice bytes(encode_infer(question).SerializeAsString());
  prepared_.push_back({grpc::ByteBuffer(&bytes, 1), question.want_outputs, question.explain});
  return static_cast<uint32_t>(prepared_.size() - 1);
}

void GrpcTransport::send(uint32_t question, const Sending& sending) {
  std::list<Call> made;
  Call& call = made.emplace_back();
  call.sending = sending;
  call.prepared = &prepared_[question];
  call.lane = &pick_lane();
  call.self = made.begin();
  ++call.lane->in_flight;
  {
    std::lock_guard lock(mutex_);
    calls_.splice(calls_.begin(), made);
  }
  call.reader =
      call.lane->stub.PrepareUnaryCall(&call.context, kInfer, call.prepared->request, &queue_);
  call.reader->StartCall();
  call.reader->Finish(&call.reply, &call.status, &call);
}

void GrpcTransport::abandon() {
  std::lock_guard lock(mutex_);
  for (Call& call : calls_) call.context.TryCancel();
}

Answer GrpcTransport::answer_of(Call& call) {
  if (!call.status.ok()) return {.status = status_of(call.status)};
  const Prepared& asked = *call.prepared;
  if (!asked.want_outputs && !asked.explain) return {};
  inference::ModelInferResponse response;
  const grpc::Status parsed =
      grpc::SerializationTraits<inference::ModelInferResponse>::Deserialize(&call.reply, &response);
  if (!parsed.ok()) return {.status = status_of(parsed)};
  return decode_infer(std::move(response), asked.want_outputs, asked.explain);
}

void GrpcTransport::complete() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    Call& call = *static_cast<Call*>(tag);
    --call.lane->in_flight;
    listener_.ended(call.sending, answer_of(call));
    std::list<Call> done;
    std::lock_guard lock(mutex_);
    done.splice(done.begin(), calls_, call.self);
  }
}

}  // namespace fermata::load
