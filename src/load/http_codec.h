#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "load/http_response.h"
#include "load/transport.h"

namespace fermata::load {

// The Open Inference Protocol over HTTP/1.1 with the binary tensor extension,
// as a client speaks it.

// A whole POST .../infer, headers and body. `host` goes into the Host header.
std::string encode_infer(std::string_view host, const Question& question);
// A whole GET of a model's metadata.
std::string encode_metadata(std::string_view host, std::string_view model,
                            std::string_view version);

// Outputs and explanation are decoded where the question asked for them; a
// response that cannot be read is INTERNAL.
Answer decode_infer(const HttpResponse& response, bool want_outputs, bool explain);
absl::StatusOr<std::vector<InputInfo>> decode_metadata(const HttpResponse& response);

}  // namespace fermata::load
