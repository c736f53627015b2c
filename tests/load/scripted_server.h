#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace fermata::load {

// A server of one service "m" with one input "x" of FP32 [-1, 4] that answers
// each inference as its script says: what a real server does only when it is
// ill. The port is the system's choice.
class ScriptedServer {
 public:
  struct Reply {
    absl::Status status;
    uint32_t output = 0;       // the class that the reply's output "y" [1, 4] names
    uint32_t batch_items = 0;  // 0: no explanation
  };
  // None: never an answer. Called with how many came before, from any thread.
  using Script = std::function<std::optional<Reply>(uint64_t before)>;

  virtual ~ScriptedServer() = default;
  virtual std::string address() const = 0;
  virtual uint64_t received() const = 0;
};

std::unique_ptr<ScriptedServer> scripted_grpc(ScriptedServer::Script script);
std::unique_ptr<ScriptedServer> scripted_http(ScriptedServer::Script script);

}  // namespace fermata::load
