#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata::cli {

// A program that runs beside us, in a process group of its own, so that a terminal's Ctrl-C is ours
// to pass on; it ends when the thread that started it does, however that may be. Its standard
// output is read here, line by line. Not thread-safe; ends with this.
class Spawned {
 public:
  // `errors`: a file for its standard error; empty: to where its output goes. The first word is
  // looked for in PATH.
  static absl::StatusOr<Spawned> start(const std::vector<std::string>& words,
                                       const std::string& errors);
  Spawned(Spawned&& other) noexcept;
  Spawned& operator=(Spawned&& other) noexcept;
  ~Spawned();  // stop()

  int output() const { return output_; }  // to poll()
  // The next whole line, without its end; none is there yet, or it has closed its output: ended().
  std::optional<std::string> line();
  bool ended() const { return closed_; }
  // The line after which it goes on by itself; blocks until it is there. None: it has ended.
  std::optional<std::string> wait_for_line();
  // Asks it to end, waits for some seconds, then makes it. Its exit code; -1: a signal ended it.
  int stop();

 private:
  Spawned(pid_t pid, int output) : pid_(pid), output_(output) {}
  void read_more();
  int wait();  // until it has ended
  pid_t pid_ = -1;
  int output_ = -1;
  bool closed_ = false;
  std::string buffer_;
};

// Runs a program to its end, for half a minute at most. FAILED_PRECONDITION with what it said where
// its exit code is not 0.
absl::Status run_program(const std::vector<std::string>& words);

}  // namespace fermata::cli
