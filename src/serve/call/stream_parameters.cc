#include "serve/call/stream_parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "base/status.h"

namespace fermata::serve {
namespace {

constexpr double kLongestUs = 1e12, kLargestSize = 1e6, kLargestNumber = 1e12;

absl::Status wrong(std::string_view name, std::string_view expected) {
  return invalid("request: parameter {} is not what it should be, expected {}", name, expected);
}

// Whole numbers and others, as clients happen to write them.
std::optional<double> number_of(const ParameterValue& value) {
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
  return std::nullopt;
}

absl::Status read_number(std::string_view name, const ParameterValue& value, double most,
                         double& out) {
  const std::optional<double> number = number_of(value);
  if (!number || !(*number >= 0 && *number <= most)) {
    return wrong(name, fmt::format("a number from 0 to {}", most));
  }
  out = *number;
  return absl::OkStatus();
}

absl::Status read_flag(std::string_view name, const ParameterValue& value, bool& out) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return wrong(name, "true or false");
  out = *flag;
  return absl::OkStatus();
}

Duration of_micros(double us) { return Duration::nanos(static_cast<int64_t>(us * 1e3)); }

}  // namespace

void set_client(const Client& client, engine::InferRequest& request) {
  request.connection = client.connection;
  if (request.frame == nullptr) return;
  request.frame->owner = client.connection;
  request.frame->address = client.address;
}

bool is_stream_parameter(std::string_view name) {
  return name == "network_time" || name.substr(0, 7) == "stream_";
}

absl::Status set_stream_parameter(std::string_view name, const ParameterValue& value,
                                  engine::InferRequest& request) {
  double number = 0;
  if (name == "network_time") {
    RETURN_IF_ERROR(read_number(name, value, kLongestUs, number));
    request.network_time = of_micros(number);
    return absl::OkStatus();
  }
  if (request.frame == nullptr) request.frame = std::make_shared<policy::StreamFrame>();
  policy::StreamFrame& frame = *request.frame;
  if (name == "stream_client") {
    const auto* text = std::get_if<std::string_view>(&value);
    if (text == nullptr || text->empty()) return wrong(name, "the name of a client");
    frame.client = *text;
  } else if (name == "stream_hello") {
    return read_flag(name, value, frame.hello);
  } else if (name == "stream_leave") {
    return read_flag(name, value, frame.leave);
  } else if (name == "stream_ack") {
    return read_flag(name, value, frame.ack);
  } else if (name == "stream_size") {
    RETURN_IF_ERROR(read_number(name, value, kLargestSize, number));
    frame.input_size = static_cast<uint32_t>(number);
  } else if (name == "stream_rate") {
    RETURN_IF_ERROR(read_number(name, value, kLargestNumber, frame.rate_rps.emplace()));
  } else if (name == "stream_bandwidth") {
    RETURN_IF_ERROR(read_number(name, value, kLargestNumber, frame.bandwidth_mbps.emplace()));
  } else if (name == "stream_sure_bandwidth") {
    RETURN_IF_ERROR(read_number(name, value, kLargestNumber, frame.sure_mbps.emplace()));
  } else if (name == "stream_min_accuracy") {
    RETURN_IF_ERROR(read_number(name, value, 1, frame.min_accuracy.emplace()));
  } else if (name == "stream_slo") {
    RETURN_IF_ERROR(read_number(name, value, kLongestUs, number));
    frame.slo = of_micros(number);
  } else if (name == "stream_rtt") {
    RETURN_IF_ERROR(read_number(name, value, kLongestUs, number));
    frame.round_trip = of_micros(number);
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string_view, ParameterValue>> stream_parameters(
    const engine::StreamReply& reply) {
  return {{"stream_size", int64_t{reply.advice.input_size}},
          {"stream_unmapped", reply.advice.input_size == 0},
          {"stream_shift_us", int64_t{reply.advice.shift.nanos() / 1000}},
          {"stream_server_us", int64_t{reply.in_server.nanos() / 1000}}};
}

}  // namespace fermata::serve
