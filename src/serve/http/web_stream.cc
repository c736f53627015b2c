#include "serve/http/web_stream.h"

#include <simdjson.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/status.h"
#include "serve/call/long_work.h"
#include "serve/call/status_map.h"
#include "serve/call/stream_parameters.h"
#include "serve/json/json_reply.h"

namespace fermata::serve {
namespace {

constexpr size_t kLengthSize = 4;
constexpr size_t kLongestFailedJson = 64 * 1024;  // of which an id is looked for

class WebStream final : public WebSocketHandler, public std::enable_shared_from_this<WebStream> {
 public:
  WebStream(WebHouse& house, Client client, std::string model, std::string version)
      : house_(house),
        client_(std::move(client)),
        model_(std::move(model)),
        version_(std::move(version)) {}

  void opened(std::shared_ptr<WebSocket> socket) override { socket_ = std::move(socket); }

  void message(std::shared_ptr<const WebMessage> message) override {
    house_.counters.begin();
    Frame frame{++last_, house_.engine.now(), {}, {}, HeldBytes(socket_->budget())};
    const auto body = read_web_message(message->bytes(), message->binary, message);
    if (!body.ok()) {
      house_.counters.reject();
      return fail(std::move(frame), {.status = body.status()});
    }
    if (body->json_length.value_or(body->bytes.size()) < kLong) {
      return submit(std::move(frame), *body);
    }
    house_.background.post(
        [self = shared_from_this(), frame = std::move(frame), body = *body]() mutable {
          self->submit(std::move(frame), body);
        },
        {client_.connection, client_.address, body->json_length.value_or(body->bytes.size())});
  }

  void closed() override {
    std::unordered_map<uint64_t, JobId> jobs;
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
      jobs.swap(jobs_);
    }
    for (const auto& [number, job] : jobs) {
      if (!job.is_none()) house_.engine.cancel(job);
    }
    if (has_clients_) house_.engine.close_streams(client_.connection);
  }

 private:
  // What is kept of a message until its reply.
  struct Frame {
    uint64_t number = 0;
    Time arrival;
    std::string id;
    ReplyWishes wishes;
    HeldBytes held;  // what is made of it, and its reply
  };

  absl::StatusOr<InferCall> decode(const InferBody& body, HeldBytes& held) const {
    ASSIGN_OR_RETURN(InferCall call, decode_json_infer(body, house_.regions, held));
    call.request.service = model_;
    call.request.version = version_;
    if (call.wishes.classifies()) {
      ASSIGN_OR_RETURN(call.wishes.classifier, house_.engine.catalog()->find(model_, version_));
    }
    return call;
  }

  void submit(Frame frame, const InferBody& body) {
    auto call = decode(body, frame.held);
    if (!call.ok()) {
      house_.counters.reject();
      frame.id = id_of(body.bytes.substr(0, body.json_length.value_or(body.bytes.size())));
      return fail(std::move(frame), {.status = call.status()});
    }
    call->request.arrival = frame.arrival;
    frame.id = call->request.id;
    frame.wishes = std::move(call->wishes);
    set_client(client_, call->request);
    if (call->request.frame != nullptr) {
      has_clients_ = true;
      if (call->request.frame->ack) acknowledge(frame);
    }
    if (call->distant.empty()) return start(std::move(frame), std::move(call->request));
    const Background::Price price{client_.connection, client_.address, bytes_of(*call)};
    auto fetch = [self = shared_from_this(), frame = std::move(frame),
                  call = *std::move(call)]() mutable {
      const absl::Status bad = self->house_.regions.fetch(call);
      if (bad.ok()) return self->start(std::move(frame), std::move(call.request));
      self->house_.counters.reject();
      self->fail(std::move(frame), {.status = bad});
    };
    house_.background.post(std::move(fetch), price);
  }

  void start(Frame frame, engine::InferRequest request) {
    const uint64_t number = frame.number;
    {
      const std::scoped_lock lock(mutex_);
      jobs_.emplace(number, JobId());
    }
    const JobId job = house_.engine.submit(
        std::move(request),
        [self = shared_from_this(), frame = std::move(frame)](engine::ReplyPart part) mutable {
          self->answer(std::move(frame), std::move(part));
        });
    bool gone;
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = jobs_.find(number); found != jobs_.end()) found->second = job;
      gone = closed_;
    }
    if (!gone) return;
    house_.engine.cancel(job);
    house_.engine.close_streams(client_.connection);
  }

  void acknowledge(const Frame& frame) {
    WebReply reply;
    reply.final = false;
    reply.head = encode_json_acknowledgement(frame.id, house_.engine.now() - frame.arrival);
    socket_->send(std::move(reply));
  }

  void answer(Frame frame, engine::ReplyPart part) {
    if (!part.status.ok()) {
      const bool explained = frame.wishes.explain;
      return fail(std::move(frame), part, explained);
    }
    const uint64_t work = work_of(part, frame.wishes);
    if (work < kLong) return encode(std::move(frame), std::move(part));
    const Background::Price price{client_.connection, client_.address, work};
    auto rest = [self = shared_from_this(), frame = std::move(frame),
                 part = std::move(part)]() mutable {
      self->encode(std::move(frame), std::move(part));
    };
    house_.background.post(std::move(rest), price);
  }

  void encode(Frame frame, engine::ReplyPart part) {
    engine::ReplyPart failed{.stream = part.stream};
    auto encoded = encode_json_reply(std::move(part), frame.wishes, house_.regions, frame.held);
    if (encoded.ok() && !frame.held.grow_by(encoded->size())) {
      encoded = absl::ResourceExhaustedError(
          "memory limit reached (listen.memory_mb): no room for the reply; retry later");
    }
    if (!encoded.ok()) {
      failed.status = encoded.status();
      return fail(std::move(frame), failed);
    }
    WebReply reply;
    reply.binary = encoded->json_length.has_value();
    if (reply.binary) {
      const auto length = static_cast<uint32_t>(*encoded->json_length);
      reply.head.resize(kLengthSize);
      std::memcpy(reply.head.data(), &length, kLengthSize);
    }
    reply.head += encoded->text;
    reply.tail = std::move(encoded->tail);
    end(std::move(frame), std::move(reply));
  }

  void fail(Frame frame, const engine::ReplyPart& part, bool explained = false) {
    WebReply reply;
    reply.head = encode_json_failure(frame.id, part, explained ? frame.wishes : ReplyWishes());
    end(std::move(frame), std::move(reply));
  }

  void end(Frame frame, WebReply reply) {
    {
      const std::scoped_lock lock(mutex_);
      jobs_.erase(frame.number);
    }
    reply.held = std::move(frame.held);
    socket_->send(std::move(reply));
    house_.counters.end();
  }

  WebHouse& house_;
  const Client client_;
  const std::string model_, version_;
  std::shared_ptr<WebSocket> socket_;
  uint64_t last_ = 0;
  std::atomic<bool> has_clients_ = false;

  std::mutex mutex_;
  std::unordered_map<uint64_t, JobId> jobs_;  // by number; without a reply
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<WebSocketHandler> make_web_stream(WebHouse& house, Client client, std::string model,
                                                  std::string version) {
  return std::make_shared<WebStream>(house, std::move(client), std::move(model),
                                     std::move(version));
}

absl::StatusOr<InferBody> read_web_message(std::string_view bytes, bool binary,
                                           std::shared_ptr<const void> owner) {
  if (!binary) return InferBody{bytes, std::nullopt, std::move(owner)};
  uint32_t length = 0;
  if (bytes.size() < kLengthSize) {
    return invalid("the message has {} bytes, expected the length of its JSON in the first 4",
                   bytes.size());
  }
  std::memcpy(&length, bytes.data(), kLengthSize);
  bytes.remove_prefix(kLengthSize);
  if (length == 0 || length > bytes.size()) {
    return invalid("the length of the message's JSON is {}, expected 1 to {}, what follows", length,
                   bytes.size());
  }
  return InferBody{bytes, length, std::move(owner)};
}

std::string id_of(std::string_view json) {
  if (json.size() > kLongestFailedJson) return {};
  simdjson::dom::parser parser;
  std::string_view id;
  if (parser.parse(json.data(), json.size())["id"].get(id) != simdjson::SUCCESS) return {};
  return std::string(id.size() > kLongestId ? std::string_view() : id);
}

}  // namespace fermata::serve
