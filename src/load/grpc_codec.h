#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "grpc_service.pb.h"
#include "load/transport.h"

namespace fermata::load {

// The Open Inference Protocol over gRPC, as a client speaks it, with tensors in
// raw_input_contents and raw_output_contents.

inference::ModelInferRequest encode_infer(const Question& question);

// Outputs and explanation are decoded where the question asked for them; a reply
// that cannot be read is INTERNAL.
Answer decode_infer(inference::ModelInferResponse response, bool want_outputs, bool explain);
absl::StatusOr<std::vector<InputInfo>> decode_metadata(
    const inference::ModelMetadataResponse& response);

}  // namespace fermata::load
