#include "cli/spawned.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "engine/confine/child.h"

extern char** environ;

namespace fermata::cli {
namespace {

constexpr int kStopMs = 10'000;
constexpr Duration kRunLimit = Duration::seconds(30);

}  // namespace

absl::StatusOr<Spawned> Spawned::start(const std::vector<std::string>& words,
                                       const std::string& errors) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return internal("no pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (errors.empty()) {
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  static constexpr std::array kEndsWithUs = {"setpriv", "--pdeathsig", "TERM", "--"};
  for (const char* word : kEndsWithUs) arguments.push_back(const_cast<char*>(word));
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int failed =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    return error(absl::StatusCode::kFailedPrecondition, "cannot start {}: {}", arguments[0],
                 std::strerror(failed));
  }
  return Spawned(pid, ends[0]);
}

Spawned::Spawned(Spawned&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      closed_(other.closed_),
      buffer_(std::move(other.buffer_)) {}

Spawned& Spawned::operator=(Spawned&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(output_, other.output_);
  std::swap(closed_, other.closed_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

Spawned::~Spawned() {
  stop();
  if (output_ >= 0) close(output_);
}

void Spawned::read_more() {
  std::array<char, 4096> piece{};
  const ssize_t n = ::read(output_, piece.data(), piece.size());
  if (n > 0) buffer_.append(piece.data(), static_cast<size_t>(n));
  if (n == 0 || (n < 0 && errno != EINTR)) closed_ = true;
}

std::optional<std::string> Spawned::line() {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string found = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return found;
    }
    pollfd ready{output_, POLLIN, 0};
    if (closed_ || ::poll(&ready, 1, 0) <= 0) return std::nullopt;
    read_more();
  }
}

std::optional<std::string> Spawned::wait_for_line() {
  for (;;) {
    if (auto found = line()) return found;
    if (closed_) return std::nullopt;
    pollfd ready{output_, POLLIN, 0};
    if (::poll(&ready, 1, -1) < 0) return std::nullopt;  // we are asked to end
  }
}

int Spawned::stop() {
  if (pid_ < 0) return 0;
  ::kill(-pid_, SIGTERM);
  pollfd ended{static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), POLLIN, 0};
  while (::poll(&ended, 1, kStopMs) < 0 && errno == EINTR) {
  }
  if ((ended.revents & POLLIN) == 0) ::kill(-pid_, SIGKILL);
  if (ended.fd >= 0) close(ended.fd);
  return wait();
}

int Spawned::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

absl::Status run_program(const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(const engine::ChildResult program, engine::run_child(words, kRunLimit));
  if (!program.timed_out && program.signal == 0 && program.exit_code == 0) return absl::OkStatus();
  return error(absl::StatusCode::kFailedPrecondition, "{}: {}{}", fmt::join(words, " "),
               program.output, program.error);
}

}  // namespace fermata::cli
