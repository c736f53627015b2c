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
// what is none of its messages is closed. Its end cancels what it has asked for. Nothing is read
// while what it has asked for and the answers that it has not read hold much.
class Calls {
 public:
  static constexpr uint64_t kMostHeld = 256 << 20;  // bytes, and one message more
  // Closes the stream.
  Calls(int stream, std::shared_ptr<ModelCalls> models, uint64_t most_held = kMostHeld);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

 private:
  struct Answer {
    std::string head;  // lengths and JSON
    std::vector<Payload> data;
    size_t bytes = 0;  // of both
  };
  struct Job {
    JobId job = JobId::none();  // none where it is not known yet
    size_t bytes = 0;           // of its message
  };
  // What replies come to, which may be after its end.
  struct Shared {
    std::mutex mutex;
    std::deque<Answer> answers;
    std::map<uint64_t, Job> jobs;  // by the process's number
    uint64_t held = 0;             // bytes of both, and of the answer that is being written
    int wake = -1;                 // an eventfd; -1: it has ended
  };

  void serve();
  absl::Status read_some();
  absl::Status write_some();
  absl::Status take(const CallText& message, Payload data);
  absl::Status call(uint64_t number, size_t bytes, InferRequest request);
  static void answer(Shared& shared, uint64_t number, ReplyPart part);

  const int stream_;
  const std::shared_ptr<ModelCalls> models_;
  const uint64_t most_held_;
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
