#include "cluster/wire/stream_messages.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status.h"
#include "cluster/wire/nanos.h"

namespace fermata::cluster {
namespace {

constexpr size_t kMostReason = 64 << 10;
constexpr uint64_t kMostFrame = uint64_t{1} << 40;  // bytes that are believed of a frame

}  // namespace

void write_frame(uint64_t key, const engine::InferRequest& request, ClientFrame& to) {
  const policy::StreamFrame& frame = *request.frame;
  to.set_key(key);
  to.set_service(request.service);
  to.set_client(frame.client);
  to.set_owner(frame.owner);
  to.set_address(frame.address);
  if (frame.rate_rps) to.set_rate_rps(*frame.rate_rps);
  if (frame.bandwidth_mbps) to.set_bandwidth_mbps(*frame.bandwidth_mbps);
  if (frame.sure_mbps) to.set_sure_mbps(*frame.sure_mbps);
  if (frame.min_accuracy) to.set_min_accuracy(*frame.min_accuracy);
  if (frame.slo) to.set_slo_nanos(positive(*frame.slo));
  if (frame.round_trip) to.set_round_trip_nanos(positive(*frame.round_trip));
  if (frame.input_size) to.set_input_size(*frame.input_size);
  to.set_bytes(frame.bytes);
  to.set_hello(frame.hello);
  to.set_leave(frame.leave);
  to.set_arrival_nanos(request.arrival.nanos());
  to.set_network_nanos(positive(request.network_time));
}

engine::InferRequest read_frame(const ClientFrame& from) {
  auto frame = std::make_shared<policy::StreamFrame>();
  frame->client = from.client();
  frame->owner = from.owner();
  frame->address = from.address();
  if (from.has_rate_rps()) frame->rate_rps = from.rate_rps();
  if (from.has_bandwidth_mbps()) frame->bandwidth_mbps = from.bandwidth_mbps();
  if (from.has_sure_mbps()) frame->sure_mbps = from.sure_mbps();
  if (from.has_min_accuracy()) frame->min_accuracy = from.min_accuracy();
  if (from.has_slo_nanos()) frame->slo = believed(from.slo_nanos());
  if (from.has_round_trip_nanos()) frame->round_trip = believed(from.round_trip_nanos());
  if (from.has_input_size()) frame->input_size = from.input_size();
  frame->bytes = std::min(from.bytes(), kMostFrame);
  frame->hello = from.hello();
  frame->leave = from.leave();
  engine::InferRequest request;
  request.service = from.service();
  request.arrival = Time() + bounded(from.arrival_nanos());
  request.network_time = believed(from.network_nanos());
  request.frame = std::move(frame);
  return request;
}

void write_operators(const std::string& stream, const std::vector<Duration>& by_variant,
                     OperatorTimes& to) {
  to.set_stream(stream);
  for (const Duration each : by_variant) to.add_nanos(positive(each));
}

std::vector<Duration> read_operators(const OperatorTimes& from) {
  std::vector<Duration> by_variant;
  for (const uint64_t nanos : from.nanos()) by_variant.push_back(believed(nanos));
  return by_variant;
}

void write_directed(uint64_t key, const engine::StreamDirection& direction, Directed& to) {
  to.set_key(key);
  to.set_code(static_cast<uint32_t>(direction.status.code()));
  if (!direction.status.ok()) {
    to.set_why(std::string(message(direction.status).substr(0, kMostReason)));
  }
  to.set_service(direction.service);
  to.set_timeout_nanos(direction.timeout.nanos());
  to.set_network_nanos(positive(direction.network_time));
  to.set_start_after_nanos(positive(direction.start_after));
  to.set_advised_size(direction.advice.input_size);
  to.set_shift_nanos(direction.advice.shift.nanos());
}

absl::StatusOr<engine::StreamDirection> read_directed(const Directed& from) {
  if (from.code() > 16 || (from.code() != 0 && !from.service().empty())) {
    return invalid("a frame of code {} for '{}'", from.code(), from.service());
  }
  engine::StreamDirection direction;
  if (from.code() != 0) {
    direction.status = absl::Status(static_cast<absl::StatusCode>(from.code()), from.why());
  }
  direction.service = from.service();
  direction.timeout = bounded(from.timeout_nanos());
  direction.network_time = believed(from.network_nanos());
  direction.start_after = believed(from.start_after_nanos());
  direction.advice = {from.advised_size(), bounded(from.shift_nanos())};
  return direction;
}

}  // namespace fermata::cluster
