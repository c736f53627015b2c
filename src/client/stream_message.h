#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "client/stream_session.h"
#include "grpc_service.pb.h"
#include "model/tensor.h"

namespace fermata::client {

// How a stream's client and its service speak over ModelStreamInfer (docs/streams.md).

// What a client says with each message.
struct StreamIdentity {
  std::string service, client;
  Duration slo;
  double rate_rps = 0;
  std::optional<double> min_accuracy;
};

struct LinkReport {
  std::optional<double> mbps, sure_mbps;
  Duration round_trip;
};

inference::ModelInferRequest hello_message(const StreamIdentity& identity, const LinkReport& link,
                                           uint64_t padding);
// Takes the tensor's bytes along. `outputs` empty: all of them.
inference::ModelInferRequest frame_message(const StreamIdentity& identity, const LinkReport& link,
                                           uint32_t side, const Tensor& tensor,
                                           const std::vector<std::string>& outputs);
// That a message has come, and how long the server had had it; none: it is a reply.
std::optional<Duration> acknowledged_in(const inference::ModelInferResponse& response);
// What a reply tells, an error's too; none where it tells nothing of streams.
std::optional<Told> told_in(const inference::ModelInferResponse& response);

}  // namespace fermata::client
