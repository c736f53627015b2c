#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "serve/call/client.h"
#include "serve/call/shared_memory.h"
#include "serve/http/web_socket.h"
#include "serve/json/json_request.h"
#include "serve/net/background.h"
#include "serve/net/counters.h"

namespace fermata::serve {

// What all WebSockets of a front end share; outlives them.
struct WebHouse {
  engine::Engine& engine;
  const SharedMemory& regions;
  FrontEndCounters& counters;
  Background& background;  // for JSON that takes long to read or to write
};

// The infer requests of one WebSocket (docs/streams.md): they run at the same time, and replies go
// out as they come. Its end cancels them, and the clients of stream services on it have gone.
std::shared_ptr<WebSocketHandler> make_web_stream(WebHouse& house, Client client, std::string model,
                                                  std::string version);

// A message of a client as the body of an infer request: text is JSON; binary is the length of
// the JSON in four bytes, little-endian, the JSON, and tensors. INVALID_ARGUMENT where the length
// is not there or is beyond the message. The body's payloads own the message.
absl::StatusOr<InferBody> read_web_message(std::string_view bytes, bool binary,
                                           std::shared_ptr<const void> owner);

// The id of a request that could not be read, so that its client knows whose error it is; empty
// where there is none. O(json).
std::string id_of(std::string_view json);

}  // namespace fermata::serve
