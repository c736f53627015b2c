#include "gateway/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "fmt/format.h"

namespace fermata::gateway {
namespace {

using envoy::service::ext_proc::v3::BodyResponse;
using envoy::service::ext_proc::v3::HeaderMap;
using envoy::service::ext_proc::v3::HeaderMutation;
using envoy::service::ext_proc::v3::HeaderValueOption;
using envoy::service::ext_proc::v3::HttpBody;
using envoy::service::ext_proc::v3::ProtocolConfiguration;

constexpr char kDestination[] = "x-gateway-destination-endpoint";
constexpr char kSubset[] = "x-gateway-destination-endpoint-subset";
constexpr char kDropped[] = "x-llm-d-request-dropped-reason";
constexpr size_t kLongestName = 256;  // of services and tenants, in bytes
constexpr int kResourceExhausted = 8;

// The value of the first of these names that is there; empty: none is.
std::string header(const HeaderMap& map, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const auto& each : map.headers()) {
      if (each.key() != name) continue;
      return each.raw_value().empty() ? each.value() : each.raw_value();
    }
  }
  return {};
}

// A path without what is asked of it: requests for the same model.
std::string service_of(const HeaderMap& map) {
  const std::string path = header(map, {":path"});
  return path.substr(0, std::min(path.find('?'), kLongestName));
}

Duration budget_of(const HeaderMap& map, const House& house) {
  if (const auto told = grpc_timeout(header(map, {"grpc-timeout"}))) return *told;
  double ms = 0;
  if (absl::SimpleAtod(header(map, {"x-envoy-upstream-rq-timeout-ms"}), &ms) && ms > 0) {
    return Duration::from_millis(ms);
  }
  const auto named = house.objectives.find(
      header(map, {"x-llm-d-inference-objective", "x-gateway-inference-objective"}));
  return named == house.objectives.end() ? house.slo : named->second;
}

// Those that the gateway allows; empty: all.
std::vector<std::string> subset_of(const ProcessingRequest& message) {
  const auto& metadata = message.metadata_context().filter_metadata();
  const auto hint = metadata.find("envoy.lb.subset_hint");
  if (hint == metadata.end()) return {};
  const auto field = hint->second.fields().find(kSubset);
  if (field == hint->second.fields().end()) return {};
  std::vector<std::string> names;
  const auto add = [&names](const std::string& list) {
    for (const auto name : absl::StrSplit(list, absl::ByAnyChar(", "), absl::SkipEmpty())) {
      names.emplace_back(name);
    }
  };
  add(field->second.string_value());
  for (const auto& each : field->second.list_value().values()) add(each.string_value());
  return names;
}

void set_header(HeaderMutation& to, const char* name, const std::string& value) {
  auto& option = *to.add_set_headers();
  option.mutable_header()->set_key(name);
  option.mutable_header()->set_raw_value(value);
  option.set_append_action(HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
}

// How the gateway answers the client itself.
ProcessingResponse refusal(const pick::Picker::Verdict& verdict, Duration budget, bool is_grpc) {
  using Refusal = pick::Picker::Refusal;
  ProcessingResponse response;
  auto& reply = *response.mutable_immediate_response();
  if (*verdict.refused == Refusal::kNobody) {
    reply.mutable_status()->set_code(503);
    reply.set_body("no server is known that could answer");
  } else {
    reply.mutable_status()->set_code(429);
    set_header(*reply.mutable_headers(), kDropped, "rejected-saturated");
    const double left = budget.millis(), expected = verdict.expected.millis();
    reply.set_body(
        *verdict.refused == Refusal::kUnfair
            ? fmt::format("this client has more requests under way than its share, and others wait")
            : fmt::format("{:.0f} ms are left, and an answer may take {:.0f} ms", left, expected));
    if (is_grpc) reply.mutable_grpc_status()->set_status(kResourceExhausted);
  }
  reply.set_details("fermata_picker");
  return response;
}

ProcessingResponse destination(const std::string& server) {
  ProcessingResponse response;
  auto& common = *response.mutable_request_headers()->mutable_response();
  set_header(*common.mutable_header_mutation(), kDestination, server);
  common.set_clear_route_cache(true);
  auto& balancer = (*response.mutable_dynamic_metadata()->mutable_fields())["envoy.lb"];
  (*balancer.mutable_struct_value()->mutable_fields())[kDestination].set_string_value(server);
  return response;
}

// A body goes on as it is; `goes_back`: it goes on only as it is sent back.
void pass(const HttpBody& body, bool goes_back, BodyResponse& to) {
  auto& common = *to.mutable_response();
  if (!goes_back) return;
  auto& streamed = *common.mutable_body_mutation()->mutable_streamed_response();
  streamed.set_body(body.body());
  streamed.set_end_of_stream(body.end_of_stream());
}

bool is_sent_back(ProtocolConfiguration::BodySendMode mode) {
  return mode == ProtocolConfiguration::FULL_DUPLEX_STREAMED || mode == ProtocolConfiguration::GRPC;
}

// What the head of an answer says of the server.
pick::Picker::End end_of(const HeaderMap& map) {
  using End = pick::Picker::End;
  int status = 0, grpc = 0;
  if (!absl::SimpleAtoi(header(map, {":status"}), &status)) return End::kGone;
  // Of an answer over gRPC that has only a head: no message.
  const std::string told = header(map, {"grpc-status"});
  if (!told.empty() && absl::SimpleAtoi(told, &grpc) && grpc != 0) {
    constexpr int kDeadline = 4, kUnavailable = 14, kInternal = 13, kUnknown = 2;
    if (grpc == kDeadline || grpc == kResourceExhausted || grpc == kUnavailable) {
      return End::kRefused;
    }
    return grpc == kInternal || grpc == kUnknown ? End::kFailed : End::kGone;
  }
  if (status == 429 || status == 504) return End::kRefused;
  if (status >= 500) return End::kFailed;
  return status >= 400 ? End::kGone : End::kAnswered;
}

}  // namespace

std::optional<Duration> grpc_timeout(std::string_view text) {
  constexpr size_t kMostDigits = 8;
  if (text.size() < 2 || text.size() > kMostDigits + 1) return std::nullopt;
  int64_t value = 0;
  if (text[0] == '-' || !absl::SimpleAtoi(std::string(text.substr(0, text.size() - 1)), &value)) {
    return std::nullopt;
  }
  switch (text.back()) {
    case 'H':
      return Duration::from_seconds(3600.0 * static_cast<double>(value));
    case 'M':
      return Duration::from_seconds(60.0 * static_cast<double>(value));
    case 'S':
      return Duration::seconds(value);
    case 'm':
      return Duration::millis(value);
    case 'u':
      return Duration::micros(value);
    case 'n':
      return Duration::nanos(value);
    default:
      return std::nullopt;
  }
}

Conversation::~Conversation() {
  if (ticket_ == 0) return;
  const std::scoped_lock lock(house_.mutex);
  house_.picker.ended(ticket_, monotonic_now(), pick::Picker::End::kGone);
}

ProcessingResponse Conversation::pick(const ProcessingRequest& message, Time now) {
  const HeaderMap& headers = message.request_headers().headers();
  const Duration budget = budget_of(headers, house_);
  const pick::Picker::Ask ask{.service = service_of(headers),
                              .tenant = header(headers, {"x-llm-d-inference-fairness-id",
                                                         "x-gateway-inference-fairness-id"})
                                            .substr(0, kLongestName),
                              .budget = budget,
                              .only = subset_of(message)};
  pick::Picker::Verdict verdict;
  {
    const std::scoped_lock lock(house_.mutex);
    if (ticket_ != 0) house_.picker.ended(ticket_, now, pick::Picker::End::kGone);
    verdict = house_.picker.pick(now, ask);
  }
  ticket_ = verdict.ticket;
  if (!verdict.refused) return destination(verdict.server);
  return refusal(verdict, budget,
                 absl::StartsWith(header(headers, {"content-type"}), "application/grpc"));
}

void Conversation::ended(const ProcessingRequest& message, Time now) {
  if (ticket_ == 0) return;
  const std::scoped_lock lock(house_.mutex);
  house_.picker.ended(std::exchange(ticket_, 0), now, end_of(message.response_headers().headers()));
}

std::optional<ProcessingResponse> Conversation::answer(const ProcessingRequest& message, Time now) {
  if (message.has_protocol_config()) {
    request_goes_back_ = is_sent_back(message.protocol_config().request_body_mode());
    response_goes_back_ = is_sent_back(message.protocol_config().response_body_mode());
  }
  ProcessingResponse response;
  switch (message.request_case()) {
    case ProcessingRequest::kRequestHeaders:
      response = pick(message, now);
      break;
    case ProcessingRequest::kResponseHeaders:
      ended(message, now);
      response.mutable_response_headers()->mutable_response();
      break;
    case ProcessingRequest::kRequestBody:
      pass(message.request_body(), request_goes_back_, *response.mutable_request_body());
      break;
    case ProcessingRequest::kResponseBody:
      pass(message.response_body(), response_goes_back_, *response.mutable_response_body());
      break;
    case ProcessingRequest::kRequestTrailers:
      response.mutable_request_trailers();
      break;
    case ProcessingRequest::kResponseTrailers:
      response.mutable_response_trailers();
      break;
    case ProcessingRequest::REQUEST_NOT_SET:
      return std::nullopt;
  }
  if (message.observability_mode()) return std::nullopt;
  return response;
}

}  // namespace fermata::gateway
