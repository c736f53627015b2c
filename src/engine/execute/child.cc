#include "engine/execute/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/status.h"

extern char** environ;

namespace fermata::engine {
namespace {

constexpr size_t kMaxOutput = 16 << 20;

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    close_write();
    if (read >= 0) close(read);
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
  bool open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
};

absl::StatusOr<pid_t> spawn(const std::vector<std::string>& command, const Pipe& out,
                            const Pipe& error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error.write, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return internal("cannot start {}: {}", command[0], strerror(failed));
  return child;
}

// False once the other end is closed.
bool drain(int fd, std::string& text) {
  std::array<char, 16384> chunk{};
  const ssize_t n = read(fd, chunk.data(), chunk.size());
  if (n > 0) text.append(chunk.data(), std::min<size_t>(n, kMaxOutput - text.size()));
  return n > 0 || (n < 0 && errno == EINTR);
}

// True when both ends were closed before `end`.
bool collect(const Pipe& out, const Pipe& error, Time end, ChildResult& result) {
  std::array<pollfd, 2> fds = {{{out.read, POLLIN, 0}, {error.read, POLLIN, 0}}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    const Duration left = end - monotonic_now();
    if (left <= Duration()) return false;
    poll(fds.data(), fds.size(), static_cast<int>(left.millis()) + 1);
    if (fds[0].revents != 0 && !drain(fds[0].fd, result.output)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !drain(fds[1].fd, result.error)) fds[1].fd = -1;
  }
  return true;
}

}  // namespace

absl::StatusOr<ChildResult> run_child(const std::vector<std::string>& command, Duration limit) {
  Pipe out, error;
  if (!out.open() || !error.open()) return internal("cannot make a pipe: {}", strerror(errno));
  ASSIGN_OR_RETURN(const pid_t child, spawn(command, out, error));
  out.close_write();
  error.close_write();
  ChildResult result;
  if (!collect(out, error, monotonic_now() + limit, result)) {
    result.timed_out = true;
    kill(child, SIGKILL);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  while (!result.error.empty() && result.error.back() == '\n') result.error.pop_back();
  return result;
}

}  // namespace fermata::engine
