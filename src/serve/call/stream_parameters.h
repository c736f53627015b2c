#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/request.h"
#include "serve/call/client.h"
#include "serve/call/infer_call.h"

namespace fermata::serve {

// What clients of stream services say in a request's parameters, and are told in a reply's
// (docs/streams.md): stream_client and what goes with it, and network_time, which any client of
// any service may give.

// Who sends a request: clients of streams on it are its own.
void set_client(const Client& client, engine::InferRequest& request);

bool is_stream_parameter(std::string_view name);
// INVALID_ARGUMENT names the parameter, what it holds and what was expected.
absl::Status set_stream_parameter(std::string_view name, const ParameterValue& value,
                                  engine::InferRequest& request);
std::vector<std::pair<std::string_view, ParameterValue>> stream_parameters(
    const engine::StreamReply& reply);

}  // namespace fermata::serve
