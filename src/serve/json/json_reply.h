#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "engine/request.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"

namespace fermata::serve {

// The body of an HTTP infer reply: `text`, then the payloads of `tail`, which
// are shared, not copied. Small binary outputs are in `text` already.
struct HttpReply {
  std::string text;
  std::optional<size_t> json_length;  // absent: all of it is JSON
  std::vector<Payload> tail;

  size_t size() const;
};

// Encodes an answer (part.status is ok). INVALID_ARGUMENT where an output cannot
// be given as the client wishes, such as NaN as JSON. `held` as for ready_outputs().
absl::StatusOr<HttpReply> encode_json_reply(engine::ReplyPart&& part, const ReplyWishes& wishes,
                                            const SharedMemory& regions,
                                            const HeldBytes& held = {});

// The body of an error, with why where that is wished.
std::string encode_json_error(const engine::ReplyPart& part, const ReplyWishes& wishes);
// What a client of a WebSocket gets in place of an answer (docs/streams.md): `id` is its
// request's.
std::string encode_json_failure(std::string_view id, const engine::ReplyPart& part,
                                const ReplyWishes& wishes);
// ... and ahead of one, where a stream's client asks for it.
std::string encode_json_acknowledgement(std::string_view id, Duration in_server);

// Appends the elements of a tensor as a flat JSON list.
absl::Status append_json_data(const Tensor& tensor, std::string& out);

}  // namespace fermata::serve
