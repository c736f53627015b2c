#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster.pb.h"
#include "engine/for_frontends.h"
#include "engine/request.h"

namespace fermata::cluster {

// What a stream's client says, in request.frame, of which the tensors stay here.
void write_frame(uint64_t key, const engine::InferRequest& request, ClientFrame& to);
// Its arrival and its owner are the frontend's, and no number has been looked at that
// StreamSessions looks at.
engine::InferRequest read_frame(const ClientFrame& from);

void write_operators(const std::string& stream, const std::vector<Duration>& by_variant,
                     OperatorTimes& to);
std::vector<Duration> read_operators(const OperatorTimes& from);

void write_directed(uint64_t key, const engine::StreamDirection& direction, Directed& to);
// INVALID_ARGUMENT says what no scheduler sends.
absl::StatusOr<engine::StreamDirection> read_directed(const Directed& from);

}  // namespace fermata::cluster
