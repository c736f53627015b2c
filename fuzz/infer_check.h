#pragma once

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/json/json_reply.h"

namespace fermata::serve {

// A refusal is one line that says something.
inline void check_refusal(const absl::Status& status) {
  FERMATA_CHECK(!message(status).empty());
  FERMATA_CHECK(message(status).size() < 4096);
}

// Reads every byte that a decoded request claims to have, and sends its inputs
// back as outputs through both codecs.
inline void check_call(const InferCall& call, const SharedMemory& regions) {
  unsigned sum = 0;
  engine::ReplyPart part;
  for (const Tensor& tensor : call.request.inputs) {
    for (const std::byte byte : tensor.data.bytes) sum += std::to_integer<unsigned>(byte);
    part.outputs.push_back(tensor);
  }
  FERMATA_CHECK(sum != 1 || !call.request.inputs.empty());
  ReplyWishes all;
  all.explain = call.wishes.explain;
  for (const ReplyWishes& wishes : {call.wishes, all}) {
    if (const auto reply = encode_json_reply(engine::ReplyPart(part), wishes, regions);
        !reply.ok()) {
      check_refusal(reply.status());
    }
    inference::ModelInferResponse response;
    if (const auto bad = encode_grpc_reply(engine::ReplyPart(part), wishes, regions, response);
        !bad.ok()) {
      check_refusal(bad);
    }
  }
}

}  // namespace fermata::serve
