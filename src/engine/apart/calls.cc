#include "engine/apart/calls.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine::apart {
namespace {

// Before each message: bytes of its JSON, and of the tensors that follow it.
struct Lengths {
  uint64_t json = 0, data = 0;
};
constexpr uint64_t kLongestJson = 16 << 20, kMostData = uint64_t{1} << 30;
constexpr int kDeepest = 64;             // of its JSON
constexpr size_t kMostCalls = 4096;      // of a process that are not answered yet
constexpr size_t kMostUnread = 16384;    // answers
constexpr size_t kLeastRoom = 64 << 10;  // it grows with what has come, not with what is promised

absl::Status unsound(std::string_view what) { return invalid("a call has {}", what); }

absl::StatusOr<std::vector<Tensor>> tensors_of(const CallText& list, const Payload& data) {
  std::vector<Tensor> tensors;
  size_t at = 0;
  for (const CallText& one : list) {
    const auto datatype = parse_datatype(one.at("datatype").get<std::string>());
    const auto bytes = one.at("bytes").get<uint64_t>();
    if (!datatype) return unsound("an unknown datatype");
    if (bytes > data.bytes.size() - at) return unsound("more bytes than it says");
    tensors.push_back({.name = one.at("name"),
                       .datatype = *datatype,
                       .shape = one.at("shape").get<Shape>(),
                       .data = {data.bytes.subspan(at, bytes), data.owner}});
    at += bytes;
  }
  return tensors;
}

// One that others can be taken from, whatever it says.
Time time_of(const CallText& nanos) {
  const auto most = static_cast<double>(Time::infinite().nanos());
  return Time::from_nanos(static_cast<int64_t>(std::clamp(nanos.get<double>(), 0.0, most)));
}

absl::StatusOr<InferRequest> request_of(const CallText& message, Payload data) try {
  InferRequest request;
  request.service = message.at("model");
  request.version = message.at("version");
  request.id = message.at("request_id");
  if (const CallText& own = message.at("parameters"); !own.empty()) request.parameters = own.dump();
  request.outputs = message.at("outputs").get<std::vector<std::string>>();
  request.arrival = monotonic_now();
  if (const CallText& deadline = message.at("deadline"); !deadline.is_null()) {
    request.cutoff = time_of(deadline);
  }
  ASSIGN_OR_RETURN(request.inputs, tensors_of(message.at("inputs"), data));
  return request;
} catch (const nlohmann::json::exception& wrong) {
  return unsound(wrong.what());
}

}  // namespace

Calls::Calls(int stream, std::shared_ptr<ModelCalls> models, uint64_t most_held)
    : stream_(stream), models_(std::move(models)), most_held_(most_held) {
  shared_->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { serve(); });
}

Calls::~Calls() {
  (void)shutdown(stream_, SHUT_RDWR);
  thread_.join();
  close(stream_);
  const std::lock_guard lock(shared_->mutex);
  close(std::exchange(shared_->wake, -1));
}

void Calls::serve() {
  absl::Status going;
  while (going.ok()) {
    short wanted = 0;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->held < most_held_) wanted |= POLLIN;
      if (writing_ || !shared_->answers.empty()) wanted |= POLLOUT;
    }
    pollfd both[] = {{stream_, wanted, 0}, {shared_->wake, POLLIN, 0}};
    if (poll(both, 2, -1) < 0 && errno != EINTR) break;
    uint64_t ignored = 0;
    if (both[1].revents != 0) (void)!read(shared_->wake, &ignored, sizeof(ignored));
    if ((both[0].revents & POLLOUT) != 0) going = write_some();
    if (going.ok() && (both[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) going = read_some();
    // A process that is gone reads nothing either.
    if ((wanted & POLLIN) == 0 && (both[0].revents & (POLLHUP | POLLERR)) != 0) break;
  }
  (void)shutdown(stream_, SHUT_RDWR);
  std::map<uint64_t, Job> jobs;
  {
    const std::lock_guard lock(shared_->mutex);
    jobs.swap(shared_->jobs);
  }
  for (const auto& [number, one] : jobs) {
    if (!one.job.is_none()) models_->cancel(one.job);
  }
}

absl::Status Calls::read_some() {
  constexpr size_t kHead = sizeof(Lengths);
  const bool in_head = body_ == nullptr;
  if (in_head) {
    head_.resize(kHead);
  } else if (body_read_ == body_->size()) {
    body_->resize(std::min(body_bytes_, std::max(kLeastRoom, 2 * body_read_)));
  }
  std::byte* const to = in_head ? head_.data() + body_read_ : body_->data() + body_read_;
  const size_t wanted = (in_head ? kHead : body_->size()) - body_read_;
  const ssize_t n = recv(stream_, to, wanted, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  if (n <= 0) return error(absl::StatusCode::kUnavailable, "the stream of calls has ended");
  body_read_ += static_cast<size_t>(n);
  if (body_read_ < (in_head ? kHead : body_bytes_)) return absl::OkStatus();
  body_read_ = 0;
  if (in_head) {
    Lengths lengths;
    std::memcpy(&lengths, head_.data(), kHead);
    if (lengths.json == 0 || lengths.json > kLongestJson || lengths.data > kMostData) {
      return unsound("impossible lengths");
    }
    json_bytes_ = lengths.json;
    body_bytes_ = lengths.json + lengths.data;
    body_ = std::make_shared<std::vector<std::byte>>();
    return absl::OkStatus();
  }
  const auto body = std::exchange(body_, nullptr);
  const auto* const text = reinterpret_cast<const char*>(body->data());
  bool deep = false;  // to write it again would take as many frames of a thread's stack
  const auto is_flat = [&deep](int depth, CallText::parse_event_t, CallText&) {
    deep = deep || depth > kDeepest;
    return !deep;
  };
  const CallText message = CallText::parse(text, text + json_bytes_, is_flat, false);
  if (deep) return unsound("lists in lists without end");
  return take(message, {absl::MakeConstSpan(*body).subspan(json_bytes_), body});
}

absl::Status Calls::take(const CallText& message, Payload data) {
  if (!message.is_object() || !message.contains("id") || !message["id"].is_number_unsigned()) {
    return unsound("no number");
  }
  const auto number = message["id"].get<uint64_t>();
  if (message.contains("cancel")) {
    JobId job = JobId::none();
    {
      const std::lock_guard lock(shared_->mutex);
      if (const auto it = shared_->jobs.find(number); it != shared_->jobs.end()) {
        job = it->second.job;
      }
    }
    if (!job.is_none()) models_->cancel(job);
    return absl::OkStatus();
  }
  const size_t bytes = json_bytes_ + data.bytes.size();
  ASSIGN_OR_RETURN(InferRequest request, request_of(message, std::move(data)));
  return call(number, bytes, std::move(request));
}

absl::Status Calls::call(uint64_t number, size_t bytes, InferRequest request) {
  bool full = false;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->answers.size() >= kMostUnread) return unsound("answers that nobody reads");
    if (shared_->jobs.contains(number)) return unsound("a number that another has");
    full = shared_->jobs.size() >= kMostCalls;
    if (!full) {
      shared_->jobs[number].bytes = bytes;
      shared_->held += bytes;
    }
  }
  if (full) {
    answer(*shared_, number,
           {.status = error(absl::StatusCode::kResourceExhausted,
                            "{} calls of this process are not answered yet", kMostCalls)});
    return absl::OkStatus();
  }
  const JobId job = models_->call(this, std::move(request), [number, shared = shared_](auto part) {
    answer(*shared, number, std::move(part));
  });
  const std::lock_guard lock(shared_->mutex);
  if (const auto it = shared_->jobs.find(number); it != shared_->jobs.end()) {
    it->second.job = job;
  }
  return absl::OkStatus();
}

// On the thread that replies, which must not block: the stream's own writes it.
void Calls::answer(Shared& shared, uint64_t number, ReplyPart part) {
  CallText said = {{"id", number}, {"code", static_cast<int>(part.status.code())}};
  Lengths lengths;
  Answer answer;
  if (!part.status.ok()) {
    said["error"] = std::string(message(part.status));
  } else {
    said["outputs"] = CallText::array();
    for (Tensor& output : part.outputs) {
      said["outputs"].push_back({{"name", output.name},
                                 {"datatype", std::string(name(output.datatype))},
                                 {"shape", output.shape},
                                 {"bytes", output.data.bytes.size()}});
      lengths.data += output.data.bytes.size();
      answer.data.push_back(std::move(output.data));
    }
  }
  const std::string text = said.dump(-1, ' ', false, CallText::error_handler_t::replace);
  lengths.json = text.size();
  answer.head.assign(reinterpret_cast<const char*>(&lengths), sizeof(lengths));
  answer.head += text;
  answer.bytes = answer.head.size() + lengths.data;
  const std::lock_guard lock(shared.mutex);
  if (const auto it = shared.jobs.find(number); it != shared.jobs.end()) {
    shared.held -= it->second.bytes;
    shared.jobs.erase(it);
  }
  if (shared.wake < 0) return;
  shared.held += answer.bytes;
  shared.answers.push_back(std::move(answer));
  const uint64_t one = 1;
  (void)!write(shared.wake, &one, sizeof(one));
}

absl::Status Calls::write_some() {
  if (!writing_) {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->answers.empty()) return absl::OkStatus();
    writing_ = std::move(shared_->answers.front());
    shared_->answers.pop_front();
    written_ = 0;
  }
  // The piece in which the next byte lies.
  absl::Span<const std::byte> piece(reinterpret_cast<const std::byte*>(writing_->head.data()),
                                    writing_->head.size());
  size_t before = 0;
  for (size_t i = 0; written_ >= before + piece.size() && i < writing_->data.size(); ++i) {
    before += piece.size();
    piece = writing_->data[i].bytes;
  }
  const size_t at = written_ - before;
  if (at < piece.size()) {
    const ssize_t n =
        send(stream_, piece.data() + at, piece.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return unsound("an end");
    if (n <= 0) return absl::OkStatus();
    written_ += static_cast<size_t>(n);
  }
  if (written_ < writing_->bytes) return absl::OkStatus();
  const std::lock_guard lock(shared_->mutex);
  shared_->held -= writing_->bytes;
  writing_.reset();
  return absl::OkStatus();
}

}  // namespace fermata::engine::apart
