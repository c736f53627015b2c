#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "serve/call/long_work.h"
#include "serve/call/memory.h"
#include "serve/call/status_map.h"
#include "serve/call/stream_parameters.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/grpc/grpc_connections.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/grpc_service.h"

namespace fermata::serve {
namespace {

// A client's own deadline, on the engine's clock.
Time cutoff_of(const grpc::ServerContextBase& context, Time now) {
  constexpr int64_t kLongestS = 1'000'000'000;  // beyond some thirty years: none
  const gpr_timespec until = context.raw_deadline();
  const gpr_timespec left = gpr_time_sub(until, gpr_now(until.clock_type));
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
    const bool is_late = is_packed(request);
    share_ = house_.share_of(context_);
    held_ = HeldBytes(house_.budget_of(*share_, request.Length(), is_late));
    if (is_late) late_ = std::make_shared<LateJob>();
    house_.decode(
        request, is_late, held_, house_.arrived(context_, share_->client),
        [this](absl::StatusOr<InferCall>&& call, const std::string&) { submit(std::move(call)); });
  }

  void OnCancel() override {
    JobId job = job_;
    if (late_ != nullptr) {
      const std::scoped_lock lock(late_->mutex);
      late_->cancelled = true;
      job = late_->job;
    }
    if (!job.is_none()) house_.engine.cancel(job);
  }
  void OnDone() override {
    if (is_under_way_) house_.under_way.fetch_sub(1);
    delete this;
  }
  // Both are short and never block: gRPC may run them where it is, instead of
  // waking a thread of its executor for each.
  bool InternalInlineable() override { return true; }

 private:
  // The job of a message that was decoded elsewhere, where the call may end before it is known.
  struct LateJob {
    std::mutex mutex;
    JobId job;
    bool cancelled = false;
  };

  void submit(absl::StatusOr<InferCall>&& call) {
    if (!call.ok()) {
      house_.counters.reject();
      return finish(call.status());
    }
    wishes_ = std::move(call->wishes);
    set_client(share_->client, call->request);
    const std::shared_ptr<LateJob> late = late_;
    GrpcHouse& house = house_;  // the reply may end this object
    const JobId job = house.engine.submit(
        std::move(call->request), [this](engine::ReplyPart part) { answer(std::move(part)); });
    if (late == nullptr) {
      job_ = job;
      return;
    }
    bool gone;
    {
      const std::scoped_lock lock(late->mutex);
      late->job = job;
      gone = late->cancelled;
    }
    if (gone) house.engine.cancel(job);
  }
  void answer(engine::ReplyPart&& part) {
    if (!wishes_.classifies()) return write(std::move(part));
    const Background::Price price{share_->client.connection, share_->client.address,
                                  work_of(part, wishes_)};
    if (price.bytes < kLong) return write(std::move(part));
    house_.background.post([this, part = std::move(part)]() mutable { write(std::move(part)); },
                           price);
  }
  void write(engine::ReplyPart&& part) {
    absl::Status status = part.status;
    if (!status.ok() && wishes_.explain) {
      const std::string why = encode_why_metadata(part, wishes_);
      if (why.size() <= kLongestWhy) context_.AddTrailingMetadata(kWhy, why);
    } else if (status.ok()) {
      inference::ModelInferResponse response;
      status = encode_grpc_reply(std::move(part), wishes_, house_.regions, response, held_);
      if (status.ok()) status = write_message(response, held_, response_);
      if (status.ok()) status = GrpcHouse::hold_answer(share_->answers, unsent_);
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
  HeldBytes held_;    // the request and its reply
  HeldBytes unsent_;  // that the reply is there and not sent
  GrpcHouse::SharePtr share_;
  ReplyWishes wishes_;
  JobId job_;                      // where it was decoded at once
  std::shared_ptr<LateJob> late_;  // else
  bool is_under_way_ = true;
};

}  // namespace

GrpcHouse::SharePtr GrpcHouse::share_of(grpc::ServerContextBase& context) const {
  return connections.share_of(context);
}

absl::Status GrpcHouse::hold_stream(std::shared_ptr<ByteBudget> of_address, HeldBytes& open) {
  open = HeldBytes(of_address);
  while (!open.grow_to(kStreamHolds)) {
    const bool is_own_share = of_address->used() + kStreamHolds > of_address->limit();
    if (streams.end_idle(is_own_share ? of_address.get() : nullptr)) continue;
    return error(absl::StatusCode::kResourceExhausted,
                 "open streams{} hold all that they may (listen.streams_mb); try again later",
                 is_own_share ? " of this address" : "");
  }
  return absl::OkStatus();
}

GrpcHouse::Arrived GrpcHouse::arrived(const grpc::ServerContextBase& context,
                                      const Client& client) const {
  const Time now = engine.now();
  return {client, now, cutoff_of(context, now)};
}

absl::Status GrpcHouse::hold_answer(const std::shared_ptr<ByteBudget>& answers, HeldBytes& unsent,
                                    uint64_t bytes) {
  bytes += kStreamHolds;
  unsent = HeldBytes(answers);
  if (unsent.grow_to(bytes)) return absl::OkStatus();
  if (answers->used() > kFewAnswers) {
    return error(absl::StatusCode::kResourceExhausted,
                 "answers that clients of this address have not taken hold all that they may "
                 "(listen.streams_mb); try again later");
  }
  answers->take_anyway(bytes);
  unsent = HeldBytes(answers, bytes);
  return absl::OkStatus();
}

struct GrpcHouse::Packed {
  std::unique_ptr<PackedMessage> message;
  HeldBytes& held;
  const Arrived from;
  Decoded then;
};

GrpcHouse::Turns::Turns() = default;
GrpcHouse::Turns::~Turns() = default;

void GrpcHouse::decode(grpc::ByteBuffer& bytes, bool is_late, HeldBytes& held, const Arrived& from,
                       Decoded then) {
  if (!is_late || bytes.Length() > max_message_bytes) {
    auto message = std::make_shared<inference::ModelInferRequest>();
    const absl::Status bad = read_plain_message(bytes, max_message_bytes, held, *message);
    std::string id = message->id();
    return then(bad.ok() ? complete(std::move(message), from, held) : bad, std::move(id));
  }
  auto message = PackedMessage::take(bytes, max_message_bytes, held.beside());
  if (!message.ok()) return then(message.status(), "");
  auto packed = std::make_unique<Packed>(Packed{*std::move(message), held, from, std::move(then)});
  {
    const std::scoped_lock lock(unpacking.mutex);
    const auto [others, is_first] = unpacking.waiting.try_emplace(from.client.connection);
    if (!is_first) return others->second.push_back(std::move(packed));
  }
  unpack(std::move(packed));
}

void GrpcHouse::unpack_next(uint64_t connection) {
  std::unique_ptr<Packed> next;
  {
    const std::scoped_lock lock(unpacking.mutex);
    const auto others = unpacking.waiting.find(connection);
    if (others->second.empty()) {
      unpacking.waiting.erase(others);
      return;
    }
    next = std::move(others->second.front());
    others->second.pop_front();
  }
  unpack(std::move(next));
}

// A step at a time, each with its price; what it unpacks to is read as one more.
void GrpcHouse::unpack(std::unique_ptr<Packed> packed) {
  const auto& [connection, address] = packed->from.client;
  const Background::Price price{connection, address, Unpacking::kAtATime};
  auto step = [this, connection = connection, packed = std::move(packed)]() mutable {
    const absl::StatusOr<bool> whole = packed->message->step();
    if (whole.ok() && !*whole) return unpack(std::move(packed));
    if (!whole.ok()) {
      packed->message.reset();
      packed->then(whole.status(), "");
      packed.reset();
      return unpack_next(connection);
    }
    const Background::Price price{connection, packed->from.client.address, packed->message->size()};
    auto read = [this, connection, packed = std::move(packed)]() mutable {
      auto message = std::make_shared<inference::ModelInferRequest>();
      const absl::Status bad = packed->message->parse(packed->held, *message);
      packed->message.reset();
      std::string id = message->id();
      packed->then(bad.ok() ? complete(std::move(message), packed->from, packed->held) : bad,
                   std::move(id));
      packed.reset();
      unpack_next(connection);
    };
    if (price.bytes <= Unpacking::kAtATime) return read();  // it is paid
    background.post(std::move(read), price);
  };
  background.post(std::move(step), price);
}

absl::StatusOr<InferCall> GrpcHouse::complete(std::shared_ptr<inference::ModelInferRequest> message,
                                              const Arrived& from, HeldBytes& held) const {
  auto call = decode_grpc_infer(std::move(message), regions);
  if (!call.ok()) return call;
  engine::InferRequest& request = call->request;
  if (const uint64_t copied = request.id.size() + request.parameters.size();
      !held.grow_by(copied)) {
    return no_memory_for("the parameters", held.bytes() + copied, held, kSmaller);
  }
  RETURN_IF_ERROR(regions.fetch(*call));
  request.arrival = from.at;
  request.cutoff = from.cutoff;
  if (call->wishes.classifies()) {
    ASSIGN_OR_RETURN(call->wishes.classifier,
                     engine.catalog()->find(request.service, request.version));
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
