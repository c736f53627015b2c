#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/execute/model_calls.h"

namespace fermata::engine::apart {

// Not base/document.h's Json, whose objects take a time that grows with the square of their fields.
using CallText = nlohmann::json;

// The server's side of the stream on which a model process calls other models (docs/processes.md):
// a thread reads its calls and writes the answers. Nothing that is read is trusted; a stream with
// what is none of its messages is closed. Its end cancels what it has asked for.
class Calls {
 public:
  Calls(int stream, std::shared_ptr<ModelCalls> models);  // closes the stream
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

 private:
  struct Answer {
    std::string head;  // lengths and JSON
    std::vector<Payload> data;
  };
  // What replies come to, which may be after its end.
  struct Shared {
    std::mutex mutex;
    std::deque<Answer> answers;
    std::map<uint64_t, JobId> jobs;  // by the process's number; none where it is not known yet
    int wake = -1;                   // an eventfd; -1: it has ended
  };

  void serve();
  absl::Status read_some();
  absl::Status write_some();
  absl::Status take(const CallText& message, Payload data);
  absl::Status call(uint64_t number, InferRequest request);
  static void answer(Shared& shared, uint64_t number, ReplyPart part);

  const int stream_;
  const std::shared_ptr<ModelCalls> models_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  // The thread's own:
  std::vector<std::byte> head_;  // of the message that comes, as far as it is there
  std::shared_ptr<std::vector<std::byte>> body_;  // its JSON and data
  size_t body_read_ = 0, json_bytes_ = 0, body_bytes_ = 0;
  std::optional<Answer> writing_;
  size_t written_ = 0;  // of it
  std::thread thread_;
};

}  // namespace fermata::engine::apart
