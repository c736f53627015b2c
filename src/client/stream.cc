#include "client/stream.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/clock.h"
#include "base/status.h"
#include "grpc_service.grpc.pb.h"
#include "load/grpc_codec.h"

namespace fermata::client {
namespace {

using inference::GRPCInferenceService;
using inference::ModelStreamInferResponse;

constexpr Duration kFirstPause = Duration::millis(100), kLongestPause = Duration::seconds(2);
constexpr Duration kLook = Duration::millis(200);  // whether a hello is due
// A connection on which nothing has come for so long is asked whether it lives, and lost without a
// word after so long more.
constexpr int kSilenceMs = 10'000, kPatienceMs = 5'000;

std::chrono::nanoseconds chrono_of(Duration d) { return std::chrono::nanoseconds(d.nanos()); }

std::shared_ptr<grpc::Channel> connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kSilenceMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPatienceMs);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string made_up_name() {
  static std::atomic<uint64_t> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("client-{}-{:x}-{}", getpid(), now, ++count);
}

absl::StatusOr<std::vector<load::InputInfo>> inputs_of(const StreamOptions& options) {
  const auto stub = GRPCInferenceService::NewStub(connect(options.address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + load::kMetadataTimeout);
  inference::ModelMetadataRequest request;
  request.set_name(options.service);
  inference::ModelMetadataResponse response;
  const grpc::Status status = stub->ModelMetadata(&context, request, &response);
  if (status.ok()) return load::decode_metadata(response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return error(absl::StatusCode::kUnavailable, "no answer within five seconds");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

// Connects with the first message, so that making one does not block.
struct Stream::Connection {
  explicit Connection(const std::string& address)
      : stub(GRPCInferenceService::NewStub(connect(address))) {
    context.set_initial_metadata_corked(true);
    stream = stub->ModelStreamInfer(&context);
  }
  std::unique_ptr<GRPCInferenceService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<inference::ModelInferRequest, ModelStreamInferResponse>>
      stream;
  bool lost = false;  // under the stream's lock
};

absl::StatusOr<std::unique_ptr<Stream>> Stream::open(StreamOptions options, Listener listener) {
  if (!(options.slo > Duration()) || !(options.rate_rps > 0)) {
    return invalid("the objective is {} ms at {} frames a second, expected positive numbers",
                   options.slo.millis(), options.rate_rps);
  }
  ASSIGN_OR_RETURN(const std::vector<load::InputInfo> inputs, inputs_of(options));
  ASSIGN_OR_RETURN(FrameEncoder encoder, FrameEncoder::make(inputs, options.encoder));
  if (options.client.empty()) options.client = made_up_name();
  return std::unique_ptr<Stream>(
      new Stream(std::move(options), std::move(encoder), std::move(listener)));
}

Stream::Stream(StreamOptions options, FrameEncoder encoder, Listener listener)
    : options_(std::move(options)),
      identity_{options_.service, options_.client, options_.slo, options_.rate_rps,
                options_.min_accuracy},
      listener_(std::move(listener)),
      encoder_(std::move(encoder)),
      session_(options_.slo, options_.rate_rps),
      thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    if (connection_ != nullptr) connection_->context.TryCancel();
  }
  changed_.notify_all();
  thread_.join();
}

Time Stream::due() {
  const std::scoped_lock lock(mutex_);
  return session_.due(monotonic_now());
}

LinkReport Stream::link(Time now) {
  return {session_.mbps(now), session_.sure_mbps(now), session_.round_trip()};
}

absl::StatusOr<Sent> Stream::send(const cv::Mat& picture, uint64_t tag) {
  const Time start = monotonic_now();
  std::optional<uint32_t> side;
  {
    const std::scoped_lock lock(mutex_);
    session_.taken();
    side = connected_ ? session_.side(start) : std::nullopt;
    if (!side) {
      const bool unmapped = session_.unmapped();
      ++(unmapped ? statistics_.unmapped : statistics_.dropped);
      return unmapped ? Sent::kUnmapped : Sent::kDropped;
    }
  }
  ASSIGN_OR_RETURN(const Tensor tensor, encoder_.encode(picture, *side));
  const Time encoded = monotonic_now();
  {
    const std::scoped_lock lock(mutex_);
    auto request = frame_message(identity_, link(encoded), *side, tensor, options_.outputs);
    const uint64_t id = session_.sent_frame(tag, *side, request.ByteSizeLong(), encoded);
    request.set_id(std::to_string(id));
    started_[id] = start;
    waiting_.push_back(std::move(request));
    ++statistics_.sent;
    statistics_.encoding += encoded - start;
    statistics_.other += monotonic_now() - encoded;
  }
  changed_.notify_all();
  return Sent::kSent;
}

absl::Status Stream::wait_until_told(Duration limit) {
  std::unique_lock lock(mutex_);
  const auto heard = [&] { return session_.told() || !rejection_.empty(); };
  if (!changed_.wait_for(lock, chrono_of(limit), heard)) {
    return error(absl::StatusCode::kUnavailable, "service '{}' has told nothing for {} s",
                 identity_.service, limit.seconds());
  }
  return session_.told() ? absl::OkStatus() : invalid("{}", rejection_);
}

bool Stream::wait_for_answers(Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, chrono_of(limit), [&] { return started_.empty(); });
}

Stream::Statistics Stream::statistics() {
  const std::scoped_lock lock(mutex_);
  Statistics now = statistics_;
  now.input_size = session_.unmapped() ? 0 : session_.asked();
  now.mbps = session_.mbps(monotonic_now());
  now.round_trip = session_.round_trip();
  return now;
}

void Stream::run() {
  Duration pause = kFirstPause;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    Connection connection(options_.address);
    connection_ = &connection;
    lock.unlock();
    serve(connection);
    lock.lock();
    connection_ = nullptr;
    lock.unlock();
    end_lost();
    lock.lock();
    // A connection that has told something was a good one.
    pause = std::exchange(connected_, false) ? kFirstPause : std::min(pause * 2, kLongestPause);
    changed_.wait_for(lock, chrono_of(pause), [&] { return closing_; });
  }
}

void Stream::serve(Connection& connection) {
  std::thread reader([&] { read(connection); });
  while (write(connection)) {
  }
  connection.context.TryCancel();
  reader.join();
  (void)connection.stream->Finish();
}

bool Stream::write(Connection& connection) {
  const auto request = next(connection);
  return request && connection.stream->Write(*request);
}

std::optional<inference::ModelInferRequest> Stream::next(Connection& connection) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Time now = monotonic_now();
    if (closing_ || connection.lost) return std::nullopt;
    if (session_.wants_hello(now)) {
      auto request = hello_message(identity_, link(now), session_.padding(now));
      request.set_id(std::to_string(session_.sent_hello(request.ByteSizeLong(), now)));
      return request;
    }
    if (!waiting_.empty()) {
      inference::ModelInferRequest request = std::move(waiting_.front());
      waiting_.pop_front();
      return request;
    }
    changed_.wait_for(lock, chrono_of(kLook));
  }
}

void Stream::read(Connection& connection) {
  ModelStreamInferResponse message;
  while (connection.stream->Read(&message)) take(std::move(message));
  const std::scoped_lock lock(mutex_);
  connection.lost = true;
  changed_.notify_all();
}

void Stream::take(ModelStreamInferResponse message) {
  const Time now = monotonic_now();
  inference::ModelInferResponse& response = *message.mutable_infer_response();
  uint64_t id = 0;
  if (!absl::SimpleAtoi(response.id(), &id)) return;
  if (const auto in_server = acknowledged_in(response)) {
    const std::scoped_lock lock(mutex_);
    session_.acknowledged(id, *in_server, now);
    return changed_.notify_all();  // the link may be free for a hello
  }
  Answer answer;
  {
    const std::scoped_lock lock(mutex_);
    std::optional<Told> told = told_in(response);
    if (!started_.contains(id)) {  // a hello
      rejection_ = message.error_message();
      if (!told) {
        rejection_ = fmt::format("'{}' is no stream service ({})", identity_.service, rejection_);
      }
      // What it is rejected with says nothing of the service's plans.
      if (!rejection_.empty()) told.reset();
    }
    connected_ = connected_ || told.has_value();
    const auto ended = session_.answered(id, told, now);
    if (!ended) return changed_.notify_all();
    answer = {.tag = ended->tag,
              .latency = now - started_[id],
              .input_size = ended->side,
              .mbps = session_.mbps(now)};
  }
  if (message.error_message().empty()) {
    load::Answer decoded = load::decode_infer(std::move(response), true, false);
    answer.status = std::move(decoded.status);
    answer.outputs = std::move(decoded.outputs);
  } else {
    answer.status = error(absl::StatusCode::kUnknown, "{}", message.error_message());
  }
  const bool ok = answer.status.ok();
  listener_(std::move(answer));
  {
    const std::scoped_lock lock(mutex_);
    started_.erase(id);
    ++(ok ? statistics_.answered : statistics_.failed);
  }
  changed_.notify_all();
}

void Stream::end_lost() {
  std::vector<StreamSession::Ended> lost;
  bool closing = false;
  {
    const std::scoped_lock lock(mutex_);
    lost = session_.lost();
    closing = closing_;
    waiting_.clear();
    started_.clear();
    statistics_.failed += lost.size();
    ++statistics_.connections;
  }
  const Time now = monotonic_now();
  for (const StreamSession::Ended& frame : lost) {
    listener_({.tag = frame.tag,
               .status = closing ? absl::CancelledError("the stream was closed")
                                 : absl::UnavailableError("the connection was lost"),
               .latency = now - frame.sent,
               .input_size = frame.side});
  }
  changed_.notify_all();
}

}  // namespace fermata::client
