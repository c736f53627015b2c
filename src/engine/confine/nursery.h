#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/time.h"
#include "engine/confine/copy_gate.h"
#include "engine/confine/model_environment.h"
#include "engine/threads/background_thread.h"

namespace fermata::engine {

// Starts children that run the fermata command: copies of a process that has read its libraries
// already, of which they share the memory. To read them takes a tenth of a second of processor time
// and some 20 MB each. Thread-safe.
class Nursery {
 public:
  struct Options {
    std::vector<std::string> environment;     // as ModelEnvironment has it
    Duration answer = Duration::seconds(20);  // for what is asked of it, but to prepare
    Duration prepare = Duration::seconds(120);
    Duration again = Duration::seconds(1);  // from one that could not be had to the next try; twice
                                            // as long after each of these, a minute at most
  };
  // `program`: the fermata command. Starts nothing yet.
  explicit Nursery(std::string program);
  Nursery(std::string program, Options options);
  // One more, of a copy of that one: for children that share what prepare() leaves too. Where it
  // cannot be had, that one starts them.
  explicit Nursery(std::shared_ptr<Nursery> of);
  // Its children are killed, but those of a copy.
  ~Nursery();
  Nursery(const Nursery&) = delete;
  Nursery& operator=(const Nursery&) = delete;

  // What `program ARGUMENTS` would be, with these as its file descriptors 0, 1, ... and no other.
  // Its parent is this process, which has to wait for it. Blocks until it is there. UNAVAILABLE
  // where this system has no such copies: whoever asks starts the program itself.
  absl::StatusOr<pid_t> start(const std::vector<std::string>& arguments,
                              absl::Span<const int> descriptors);

  // Of a copy: its process does with `text` what be_nursery() was given for that, so that children
  // have it. Blocks. Once; a process that takes the place of one that died
  // does the same. Where it failed children share nothing, until it does not.
  absl::Status prepare(const std::string& text);
  // Whoever waits for it waits no more, nor does anybody later.
  void stop();
  const std::vector<std::string>& environment() const { return options_.environment; }

 private:
  using Task = absl::AnyInvocable<void()>;
  template <class Result>
  Result on_thread(absl::AnyInvocable<Result()> work);
  absl::StatusOr<pid_t> start_here(const std::string& words, absl::Span<const int> descriptors);
  absl::StatusOr<pid_t> ask(const std::string& words, absl::Span<const int> descriptors);
  absl::StatusOr<pid_t> receive_child();
  absl::Status prepare_here();
  absl::Status have();
  absl::Status open();
  absl::StatusOr<pid_t> spawn_one(int stream);
  void end_copies();
  void close();

  const std::string program_;
  const std::shared_ptr<Nursery> of_;
  const Options options_;
  std::mutex mutex_;
  // Under the mutex, and the thread's own to change:
  pid_t pid_ = -1;
  int stream_ = -1;
  bool stopped_ = false;
  // The thread's own:
  absl::Status none_;  // why there were no such copies here at the last try
  Time again_at_;
  Duration pause_;
  std::optional<std::string> text_;  // that was to be prepared
  absl::Status prepared_;
  std::optional<CopyGate> gate_;  // of a copy: when it may copy itself
  std::set<pid_t> copies_;        // that it has made and that are there, if it has a gate
  // The parent of all of them: what a system kills with its parent goes with the thread.
  BackgroundThread<Task> thread_;
};

// What `fermata nursery` does, at the other end of the stream that is its file descriptor 3: copies
// itself for every child, which calls `run` with its arguments, as main() would, and calls
// `prepare` with what Nursery::prepare() is given. Returns when the stream is closed; at once where
// there can be no copies, which it says to whoever started it. `threads`: what OPENBLAS_NUM_THREADS
// was for whoever started it; empty: nothing.
void be_nursery(const std::string& threads, absl::FunctionRef<int(int argc, char** argv)> run,
                absl::FunctionRef<absl::Status(std::string_view text)> prepare);

// Of a process that it starts, or, where it cannot or is null, of one that is started instead.
inline ModelEnvironment environment_of(const Nursery* nursery) {
  return nursery == nullptr ? ModelEnvironment() : ModelEnvironment(nursery->environment());
}

// `listener`, which it closes: what confine_to_copying() has returned.
absl::Status let_server_decide(int listener);

}  // namespace fermata::engine
