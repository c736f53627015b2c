#include "client/stream_message.h"

#include "load/grpc_codec.h"

namespace fermata::client {
namespace {

using inference::ModelInferRequest;

void add_parameters(const StreamIdentity& identity, const LinkReport& link,
                    ModelInferRequest& request) {
  auto& p = *request.mutable_parameters();
  p["stream_client"].set_string_param(identity.client);
  p["stream_slo"].set_int64_param(identity.slo.nanos() / 1000);
  p["stream_rate"].set_double_param(identity.rate_rps);
  if (identity.min_accuracy) p["stream_min_accuracy"].set_double_param(*identity.min_accuracy);
  p["stream_ack"].set_bool_param(true);
  if (!link.mbps) return;
  p["stream_bandwidth"].set_double_param(*link.mbps);
  p["stream_sure_bandwidth"].set_double_param(link.sure_mbps.value_or(*link.mbps));
  p["stream_rtt"].set_int64_param(link.round_trip.nanos() / 1000);
}

}  // namespace

ModelInferRequest hello_message(const StreamIdentity& identity, const LinkReport& link,
                                uint64_t padding) {
  ModelInferRequest request;
  request.set_model_name(identity.service);
  add_parameters(identity, link, request);
  auto& p = *request.mutable_parameters();
  p["stream_hello"].set_bool_param(true);
  // A name that servers do not know: they leave it alone.
  if (padding > 0) p["stream_padding"].set_string_param(std::string(padding, '.'));
  return request;
}

ModelInferRequest frame_message(const StreamIdentity& identity, const LinkReport& link,
                                uint32_t side, const Tensor& tensor,
                                const std::vector<std::string>& outputs) {
  ModelInferRequest request = load::encode_infer({.service = identity.service, .inputs = {tensor}});
  add_parameters(identity, link, request);
  (*request.mutable_parameters())["stream_size"].set_int64_param(side);
  for (const std::string& output : outputs) request.add_outputs()->set_name(output);
  return request;
}

std::optional<Duration> acknowledged_in(const inference::ModelInferResponse& response) {
  const auto& p = response.parameters();
  const auto ack = p.find("stream_ack"), held = p.find("stream_server_us");
  if (ack == p.end() || !ack->second.bool_param() || held == p.end()) return std::nullopt;
  return Duration::micros(held->second.int64_param());
}

std::optional<Told> told_in(const inference::ModelInferResponse& response) {
  const auto& p = response.parameters();
  const auto whole = [&](const char* name) -> int64_t {
    const auto found = p.find(name);
    return found == p.end() ? 0 : found->second.int64_param();
  };
  if (!p.contains("stream_server_us")) return std::nullopt;
  Told told;
  const int64_t side = whole("stream_size");
  told.input_size = side > 0 ? static_cast<uint32_t>(side) : 0;
  told.unmapped = told.input_size == 0;
  told.shift = Duration::micros(whole("stream_shift_us"));
  told.in_server = Duration::micros(whole("stream_server_us"));
  return told;
}

}  // namespace fermata::client
