#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/threads/background_thread.h"

namespace fermata::engine {

// Starts children that run the fermata command: copies of a process that has read its libraries
// already, of which they share the memory. To read them takes a tenth of a second of processor time
// and some 20 MB each. Thread-safe.
class Nursery {
 public:
  // `program`: the fermata command. Starts nothing yet.
  explicit Nursery(std::string program);
  // Its children are killed.
  ~Nursery();
  Nursery(const Nursery&) = delete;
  Nursery& operator=(const Nursery&) = delete;

  // What `program ARGUMENTS` would be, with these as its file descriptors 0, 1, ... and no other.
  // Its parent is this process, which has to wait for it. Blocks until it is there. UNAVAILABLE
  // where this system has no such copies: whoever asks starts the program itself.
  absl::StatusOr<pid_t> start(const std::vector<std::string>& arguments,
                              absl::Span<const int> descriptors);

 private:
  using Task = absl::AnyInvocable<void()>;
  absl::StatusOr<pid_t> start_here(const std::string& words, absl::Span<const int> descriptors);
  absl::Status open();
  void close();

  const std::string program_;
  // The thread's own:
  pid_t pid_ = -1;
  int stream_ = -1;
  absl::Status none_;  // why there are no such copies here
  // The parent of all of them: what a system kills with its parent goes with the thread.
  BackgroundThread<Task> thread_;
};

// What `fermata nursery` does, at the other end of the stream that is its file descriptor 3: copies
// itself for every child, which calls `run` with its arguments, as main() would. Returns when the
// stream is closed; at once where there can be no copies, which it says to whoever started it.
// `threads`: what OPENBLAS_NUM_THREADS was for whoever started it; empty: nothing.
void be_nursery(const std::string& threads, absl::FunctionRef<int(int argc, char** argv)> run);

}  // namespace fermata::engine
