#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/document.h"
#include "base/time.h"
#include "engine/catalog.h"
#include "engine/options.h"

namespace fermata::engine::apart {

// A stream of JSON objects, a line each, between a server and a model process: for what happens
// now and then. docs/processes.md lists them.
class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}  // which it closes
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  absl::Status write(const Json& message, Time until = Time::infinite());
  // UNAVAILABLE at the end of the stream, DEADLINE_EXCEEDED where none came until then.
  absl::StatusOr<std::string> read(Time until);

 private:
  const int fd_;
  std::string buffer_;
};

// Whether a question has had none: the process has gone, or did not give one in time.
bool no_answer(const absl::Status& status);

// The server's side. Thread-safe.
class Control {
 public:
  explicit Control(int fd) : lines_(fd) {}
  // Until the process has said that it is there.
  absl::Status hello(Time until);
  // Blocks for its answer. What it says went wrong has its code, which is none of no_answer().
  // After DEADLINE_EXCEEDED nothing more may be asked: its answer would be taken for that to the
  // next.
  absl::StatusOr<Json> inquire(const Json& message, Time until);
  // Without an answer; not at all where the process does not read.
  void tell(const Json& message);

 private:
  absl::StatusOr<Json> answer(Time until);
  static absl::StatusCode said_code(const Json& answer);

  Lines lines_;
  std::mutex asking_, writing_;
};

// A configuration for whoever reads no protobufs: its fields by their own names.
std::string config_text(const inference::ModelConfig& config);
struct Loading {
  bool quietly = false;  // with the time that others leave
  bool warm = false;     // and one that has been tried runs once, on made-up inputs
};
Json load_message(const Variant& variant, const WorkerType& worker, Loading how = {});
// The same for a process that opens it and is copied then, within so much memory.
std::string prepared_message(const Variant& variant, const WorkerType& worker, bool quietly,
                             std::optional<double> memory_mb);
// What they say: the process's side.
struct LoadRequest {
  std::shared_ptr<const Variant> variant;
  WorkerType worker;
  Loading how;
  std::optional<double> memory_mb;
};
absl::StatusOr<LoadRequest> read_load(std::string_view line);

}  // namespace fermata::engine::apart
