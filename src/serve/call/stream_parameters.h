#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/request.h"
#include "serve/call/infer_call.h"

namespace fermata::serve {

// What clients of stream services say in a request's parameters, and are told in a reply's
// (docs/protocol.md): stream_client and what goes with it, and network_time, which any client of
// any service may give.

// A number of its own for a connection whose end is the end of its clients
// (policy::StreamFrame::owner). Thread-safe.
uint64_t new_stream_owner();

bool is_stream_parameter(std::string_view name);
// INVALID_ARGUMENT names the parameter, what it holds and what was expected.
absl::Status set_stream_parameter(std::string_view name, const ParameterValue& value,
                                  engine::InferRequest& request);
std::vector<std::pair<std::string_view, ParameterValue>> stream_parameters(
    const engine::StreamReply& reply);

}  // namespace fermata::serve
