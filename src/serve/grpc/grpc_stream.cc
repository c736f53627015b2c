#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/call/long_work.h"
#include "serve/call/status_map.h"
#include "serve/call/stream_parameters.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/grpc/grpc_connections.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/grpc_service.h"

namespace fermata::serve {
namespace {

using inference::ModelStreamInferResponse;

// Requests of a stream that wait for their turn to be written; and where its address owes for those
// that it gave up.
constexpr size_t kMostUnderWay = 256, kFewUnderWay = 8;

// Asked for with the metadata triton_grpc_error: an error ends the stream with
// its status, instead of travelling in a response.
bool errors_end_stream(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("triton_grpc_error");
  return found != context.client_metadata().end() && found->second == "true";
}

// One stream. Requests run at the same time; responses go out in the order of
// their requests. Replies of the engine keep the object alive beside gRPC.
class StreamInfer final : public InferStream,
                          public OpenStreams::Stream,
                          public std::enable_shared_from_this<StreamInfer> {
 public:
  StreamInfer(GrpcHouse& house, grpc::CallbackServerContext& context)
      : house_(house),
        context_(context),
        errors_end_stream_(errors_end_stream(context)),
        share_(house.share_of(context)),
        client_{new_connection_number(), share_->client.address},
        budget_(share_->budget != nullptr
                    ? share_->budget
                    : std::make_shared<ByteBudget>(house.stream_bytes, house.budget)) {}

  void start() {
    self_ = shared_from_this();
    house_.under_way.fetch_add(1, std::memory_order_relaxed);
    const absl::Status room = house_.hold_stream(share_->of_its_streams, open_);
    if (room.ok()) house_.streams.add(self_);  // the next one may end it from here on
    const std::scoped_lock lock(mutex_);
    if (room.ok()) {
      read_next();
    } else {
      failed_ = room;
    }
    advance();
  }

  bool give_way(const absl::Status& why) override {
    const std::scoped_lock lock(mutex_);
    if (!is_idle()) return false;
    open_ = {};
    failed_ = why;
    advance();
    return true;
  }
  std::optional<OpenStreams::Moment> idle_since() override {
    const std::scoped_lock lock(mutex_);
    return is_idle() ? std::optional(last_) : std::nullopt;
  }
  const ByteBudget* share() const override { return share_->of_its_streams.get(); }

  void drain() override {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    advance();
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      submit();
      const std::scoped_lock lock(mutex_);
      if (slots_.size() < most_under_way()) return read_next();
      paused_ = true;
    } else {
      const std::scoped_lock lock(mutex_);
      reads_done_ = true;
      advance();
    }
  }
  void OnWriteDone(bool) override {
    const std::scoped_lock lock(mutex_);
    writing_ = false;
    if (acknowledging_) {
      acknowledgements_.pop_front();
    } else {
      slots_.pop_front();
      ++answered_;
    }
    last_ = std::chrono::steady_clock::now();
    advance();
    if (paused_ && slots_.size() < most_under_way()) {
      paused_ = false;
      read_next();
    }
  }
  void OnCancel() override {
    {
      const std::scoped_lock lock(mutex_);
      cancelled_ = true;
    }
    give_up();
  }
  void OnDone() override {
    give_up();  // what is behind one whose error has ended the stream
    house_.streams.remove(this);
    house_.under_way.fetch_sub(1, std::memory_order_relaxed);
    if (has_clients_) house_.engine.close_streams(client_.connection);
    self_.reset();
  }

 private:
  // A request whose response is not written yet.
  struct Slot {
    std::string id;
    ReplyWishes wishes;
    JobId job;
    HeldBytes held;     // the request and its response
    HeldBytes refusal;  // one that found no room and went out all the same
    std::optional<grpc::ByteBuffer> response;
  };

  size_t most_under_way() const {
    const bool owes = share_->account != nullptr &&
                      share_->account->is_crowded([] { return std::chrono::steady_clock::now(); });
    return owes ? kFewUnderWay : kMostUnderWay;
  }
  // Under the lock.
  bool is_idle() const { return slots_.empty() && !finished_; }

  // Once. The end of the stream pays for one of them, and what was answered for as many.
  void give_up() {
    const size_t given_up = cancel_waiting();
    size_t paid = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(has_given_up_, true)) return;
      paid = std::max<size_t>(answered_, 1);
    }
    if (given_up <= paid || share_->account == nullptr) return;
    share_->account->waste(given_up - paid, std::chrono::steady_clock::now());
  }
  // Nobody is left to read what these are answered. How many there were.
  size_t cancel_waiting() {
    std::vector<JobId> waiting;
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& slot : slots_) {
        if (!slot->response && !slot->job.is_none()) waiting.push_back(slot->job);
      }
    }
    for (const JobId job : waiting) house_.engine.cancel(job);
    return waiting.size();
  }

  void read_next() {
    if (finished_ || draining_) return;
    StartRead(&incoming_);
  }

  void submit() {
    if (!std::exchange(is_used_, true)) house_.streams.used(this);
    auto slot = std::make_shared<Slot>();
    slot->held = HeldBytes(budget_);
    {
      const std::scoped_lock lock(mutex_);
      if (draining_ || finished_) return;  // the stream's status says that it was not begun
      slots_.push_back(slot);
    }
    house_.counters.begin();
    const auto from = house_.arrived(context_, share_->client);
    house_.decode(
        incoming_, is_packed(incoming_), slot->held, from,
        [self = shared_from_this(), slot](absl::StatusOr<InferCall>&& call, std::string id) {
          slot->id = std::move(id);
          self->submit(slot, std::move(call));
        });
  }

  void submit(const std::shared_ptr<Slot>& slot, absl::StatusOr<InferCall>&& call) {
    if (!call.ok()) {
      house_.counters.reject();
      engine::ReplyPart refused;
      refused.status = call.status();
      return answer(*slot, std::move(refused));
    }
    slot->wishes = std::move(call->wishes);
    set_client(client_, call->request);
    if (call->request.frame != nullptr) {
      has_clients_ = true;
      if (call->request.frame->ack) acknowledge(*slot, call->request.arrival);
    }
    const JobId job = house_.engine.submit(
        std::move(call->request), [self = shared_from_this(), slot](engine::ReplyPart part) {
          self->answer_in_time(slot, std::move(part));
        });
    bool gone;
    {
      const std::scoped_lock lock(mutex_);
      slot->job = job;
      gone = cancelled_ || finished_;
    }
    if (!gone) return;
    house_.engine.cancel(job);
    if (has_clients_) house_.engine.close_streams(client_.connection);
  }

  // Tells a stream's client that its message has come, ahead of all replies.
  void acknowledge(Slot& slot, Time arrival) {
    ModelStreamInferResponse response;
    auto& infer = *response.mutable_infer_response();
    infer.set_id(slot.id);
    auto& parameters = *infer.mutable_parameters();
    parameters["triton_final_response"].set_bool_param(false);
    parameters["stream_ack"].set_bool_param(true);
    parameters["stream_server_us"].set_int64_param((house_.engine.now() - arrival).nanos() / 1000);
    grpc::ByteBuffer bytes;
    if (!write_message(response, slot.held, bytes).ok()) return;  // its answer is still to come
    const std::scoped_lock lock(mutex_);
    acknowledgements_.push_back(std::move(bytes));
    advance();
  }

  void answer_in_time(const std::shared_ptr<Slot>& slot, engine::ReplyPart part) {
    const uint64_t work = slot->wishes.classifies() ? work_of(part, slot->wishes) : 0;
    if (work < kLong) return answer(*slot, std::move(part));
    house_.background.post(
        [self = shared_from_this(), slot, part = std::move(part)]() mutable {
          self->answer(*slot, std::move(part));
        },
        {share_->client.connection, share_->client.address, work});
  }

  void answer(Slot& slot, engine::ReplyPart part) {
    absl::Status status = part.status;
    const bool explained = !status.ok() && slot.wishes.explain;
    engine::ReplyPart refused{.stream = part.stream};
    if (explained) refused.why = part.why;
    ModelStreamInferResponse response;
    auto& infer = *response.mutable_infer_response();
    if (status.ok()) {
      status = encode_grpc_reply(std::move(part), slot.wishes, house_.regions, infer, slot.held);
    }
    (*infer.mutable_parameters())["triton_final_response"].set_bool_param(true);
    grpc::ByteBuffer bytes;
    if (status.ok()) status = write_message(response, slot.held, bytes);
    if (!status.ok()) {
      infer.Clear();
      infer.set_id(slot.id);
      (*infer.mutable_parameters())["triton_final_response"].set_bool_param(true);
      encode_grpc_why(refused, explained ? &slot.wishes : nullptr, infer);
      response.set_error_message(client_message(status));
      HeldBytes uncounted;
      (void)write_message(response, uncounted, bytes);
      budget_->take_anyway(bytes.Length());
      slot.refusal = HeldBytes(budget_, bytes.Length());
    }
    {
      const std::scoped_lock lock(mutex_);
      if (!status.ok() && failed_.ok() && errors_end_stream_) failed_ = status;
      slot.response = std::move(bytes);
      advance();
    }
    house_.counters.end();
  }

  // Writes what is next, or ends the stream when there is nothing left to come. Under the lock.
  void advance() {
    if (writing_ || finished_) return;
    acknowledging_ = !acknowledgements_.empty() && !cancelled_ && failed_.ok();
    if (acknowledging_) {
      writing_ = true;
      return StartWrite(&acknowledgements_.front());
    }
    const bool for_nobody = cancelled_ || !failed_.ok();
    while (for_nobody && !slots_.empty() && slots_.front()->response) slots_.pop_front();
    if (!slots_.empty() && slots_.front()->response) {
      writing_ = true;
      return StartWrite(&*slots_.front()->response);
    }
    const bool over = slots_.empty() && (reads_done_ || cancelled_ || draining_);
    if (!over && failed_.ok()) return;
    if (draining_ && !reads_done_ && failed_.ok()) {
      failed_ = error(absl::StatusCode::kUnavailable, "the server stops");
    }
    finished_ = true;
    Finish(grpc_status(failed_));
  }

  GrpcHouse& house_;
  grpc::CallbackServerContext& context_;
  const bool errors_end_stream_;
  const GrpcHouse::SharePtr share_;
  const Client client_;
  std::atomic<bool> has_clients_ = false;
  std::shared_ptr<StreamInfer> self_;
  const std::shared_ptr<ByteBudget> budget_;
  grpc::ByteBuffer incoming_;  // only between StartRead and OnReadDone

  bool is_used_ = false;  // only between reads
  HeldBytes open_;        // that it is there

  std::mutex mutex_;
  std::deque<std::shared_ptr<Slot>> slots_;        // in the order of the requests
  std::deque<grpc::ByteBuffer> acknowledgements_;  // written first
  bool acknowledging_ = false;                     // the write under way is one
  bool writing_ = false, reads_done_ = false, paused_ = false, cancelled_ = false;
  bool draining_ = false, finished_ = false, has_given_up_ = false;
  size_t answered_ = 0;  // requests
  absl::Status failed_;
  OpenStreams::Moment last_ = std::chrono::steady_clock::now();  // when it became idle
};

}  // namespace

InferStream* start_stream(GrpcHouse& house, grpc::CallbackServerContext& context) {
  auto stream = std::make_shared<StreamInfer>(house, context);
  stream->start();
  return stream.get();
}

}  // namespace fermata::serve
