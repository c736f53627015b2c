#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "engine/request.h"
#include "grpc_service.pb.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"

namespace fermata::serve {

// Decodes everything but the times. Payloads are views into the message wherever
// it holds the bytes as the wire does, so it must not change until they are gone.
// INVALID_ARGUMENT says which field, what stands there and what was expected.
absl::StatusOr<InferCall> decode_grpc_infer(
    std::shared_ptr<const inference::ModelInferRequest> message, const SharedMemory& regions);

// What a stream's client is told, of an error too; why, where that was `explained`.
void encode_grpc_why(const engine::ReplyPart& part, const ReplyWishes* explained,
                     inference::ModelInferResponse& response);
// The latter as metadata, a JSON object in ASCII.
std::string encode_why_metadata(const engine::ReplyPart& part, const ReplyWishes& wishes);

// Fills `response` from an answer (part.status is ok). `held` as for ready_outputs().
absl::Status encode_grpc_reply(engine::ReplyPart&& part, const ReplyWishes& wishes,
                               const SharedMemory& regions, inference::ModelInferResponse& response,
                               const HeldBytes& held = {});

}  // namespace fermata::serve
