#include "engine/confine/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/confine.h"
#include "engine/confine/descriptor.h"
#include "engine/confine/machine.h"
#include "engine/confine/nursery.h"
#include "engine/threads/give_way_to_all.h"

// GCC defines the first two, Clang answers the question.
#ifndef __has_feature
#define __has_feature(x) 0
#endif

namespace fermata::engine {
namespace {

constexpr size_t kMaxOutput = 16 << 20;

// Sanitizers reserve terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Pipe {
  Descriptor read, write;
  bool open() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read.reset(ends[0]);
    write.reset(ends[1]);
    return true;
  }
};

void reset_signals(posix_spawnattr_t& attributes) {
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGFPE}) {
    sigaddset(&usual, signal);
  }
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

absl::StatusOr<pid_t> start(const std::vector<std::string>& command, int input, const Pipe& out,
                            const Pipe& error, Nursery* nursery) {
  const std::array<int, 3> first = {input, out.write.get(), error.write.get()};
  if (nursery != nullptr) {
    auto child = nursery->start({command.begin() + 1, command.end()}, first);
    if (child.ok()) return child;
  }
  return spawn(command, first, environment_of(nursery), /*apart=*/false);
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
  std::array<pollfd, 2> fds = {{{out.read.get(), POLLIN, 0}, {error.read.get(), POLLIN, 0}}};
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

int file_in_memory(std::string_view text) {
  int file = memfd_create("input", MFD_CLOEXEC);
  if (file < 0) file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return file;
  size_t done = 0;
  for (ssize_t n = 1; done < text.size() && n > 0;
       done += static_cast<size_t>(std::max<ssize_t>(n, 0))) {
    n = write(file, text.data() + done, text.size() - done);
  }
  if (done == text.size() && lseek(file, 0, SEEK_SET) == 0) return file;
  close(file);
  return -1;
}

absl::StatusOr<ChildResult> run_child(const std::vector<std::string>& command, Duration limit,
                                      std::string_view text, Nursery* nursery) {
  const Descriptor input(file_in_memory(text));
  Pipe out, error;
  if (input.get() < 0 || !out.open() || !error.open()) {
    return internal("cannot make a pipe: {}", strerror(errno));
  }
  ASSIGN_OR_RETURN(const pid_t child, start(command, input.get(), out, error, nursery));
  out.write.reset(-1);
  error.write.reset(-1);
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

bool await_event(int fd, short events, Time until) {
  while (true) {
    const Time now = monotonic_now();
    if (now >= until) return false;
    const double left_ms = until.is_infinite() ? 1e6 : std::min(1e6, (until - now).millis() + 1);
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left_ms));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
}

absl::StatusOr<pid_t> spawn(const std::vector<std::string>& command,
                            absl::Span<const int> descriptors, const ModelEnvironment& environment,
                            bool apart) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  int place = 0;
  for (const int fd : descriptors) posix_spawn_file_actions_adddup2(&actions, fd, place++);
  posix_spawn_file_actions_addclosefrom_np(&actions, place);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (apart) reset_signals(attributes);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(),
                                  environment.get());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return internal("cannot start {}: {}", command[0], strerror(failed));
  return child;
}

void end_child(pid_t child) {
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

namespace {

void limit_resources(const ChildLimits& limits) {
  if (limits.quietly) give_way_to_all();
  const auto limit = [](auto resource, rlim_t value) {
    const rlimit both{value, value};
    setrlimit(resource, &both);
  };
  limit(RLIMIT_CORE, 0);
  if (limits.processor_s > 0) {
    const rlimit processor{static_cast<rlim_t>(limits.processor_s) + 1,
                           static_cast<rlim_t>(limits.processor_s) + 5};  // SIGXCPU, SIGKILL
    setrlimit(RLIMIT_CPU, &processor);
  }
  if (limits.processor_s > 0) limit(RLIMIT_FSIZE, 16 << 20);  // one that serves writes its log
  // What it writes to, and not the addresses that libraries and threads reserve.
  if (std::isfinite(limits.memory_mb) && !kSanitized) {
    limit(RLIMIT_DATA, static_cast<rlim_t>(limits.memory_mb) << 20);
  }
}

}  // namespace

absl::Status limit_this_process(const ChildLimits& limits) {
  limit_resources(limits);
  return limits.confined ? confine_to_serving() : deny_internet();
}

absl::StatusOr<int> limit_for_copies(const ChildLimits& limits) {
  limit_resources(limits);
  return confine_to_copying();
}

double size_mb(const std::filesystem::path& folder) {
  double bytes = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored)) bytes += static_cast<double>(entry.file_size(ignored));
  }
  return bytes / (1 << 20);
}

double usual_limit_mb(const std::filesystem::path& folder) {
  constexpr double kLibrariesMb = 4096, kTimesFiles = 8;
  return std::min(machine_mb(), kLibrariesMb + kTimesFiles * size_mb(folder));
}

bool limits_memory() { return !kSanitized; }

bool lacks_memory(const absl::Status& status) { return absl::IsResourceExhausted(status); }

absl::Status of_limited(absl::Status status, double memory_mb) {
  if (!std::isfinite(memory_mb) || !lacks_memory(status)) return status;
  return invalid("needs more memory than the {:.0f} MiB of workers.trial_memory_mb: {}", memory_mb,
                 message(status));
}

}  // namespace fermata::engine
