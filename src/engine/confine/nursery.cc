#include "engine/confine/nursery.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/child.h"
#include "engine/onnx/onnx_api.h"

extern char** environ;

namespace fermata::engine {
namespace {

constexpr int kStream = 3;
constexpr int kAside = 32;  // descriptors that are none of a child's first ones
constexpr size_t kMostWords = 64 << 10, kMostDescriptors = 16;
constexpr int kPatienceMs = 20'000;
constexpr size_t kMostWaiting = 1 << 20;
constexpr Duration kOthersEnd = Duration::seconds(2);
constexpr char kBetween = '\0';  // between two words

absl::Status unavailable(std::string_view why) {
  return error(absl::StatusCode::kUnavailable, "{}", why);
}

absl::Status send(int stream, std::string_view words, absl::Span<const int> descriptors) {
  iovec bytes{const_cast<char*>(words.data()), words.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  if (sendmsg(stream, &message, MSG_NOSIGNAL) >= 0) return absl::OkStatus();
  return unavailable(strerror(errno));
}

// A child's number; 0: it is ready to make some. Negative: why not, as errno, or in words after it.
absl::StatusOr<pid_t> receive(int stream) {
  pollfd ready{stream, POLLIN, 0};
  std::array<char, 256> text{};
  int64_t number = 0;
  constexpr size_t kLength = sizeof(number);
  const ssize_t got =
      poll(&ready, 1, kPatienceMs) == 1 ? recv(stream, text.data(), text.size(), 0) : 0;
  if (got < static_cast<ssize_t>(kLength)) {
    return unavailable("a process that copies itself gives no answer");
  }
  std::memcpy(&number, text.data(), kLength);
  const std::string_view why(text.data() + kLength, static_cast<size_t>(got) - kLength);
  if (number < 0) return unavailable(why.empty() ? strerror(static_cast<int>(-number)) : why);
  return static_cast<pid_t>(number);
}

// OpenBLAS, which libraries of OpenCV's may bring, starts threads when it is read unless this says
// 1. Children are to have what stood there before.
constexpr const char* kThreads = "OPENBLAS_NUM_THREADS";

class Environment {
 public:
  Environment() {
    const std::string_view name = kThreads;
    for (char** one = environ; *one != nullptr; ++one) {
      const std::string_view word = *one;
      if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") words_.push_back(*one);
    }
    words_.push_back(one_.data());
    words_.push_back(nullptr);
  }
  char* const* get() const { return words_.data(); }
  char* before() const { return getenv(kThreads); }  // null: nothing

 private:
  std::string one_ = std::string(kThreads) + "=1";
  std::vector<char*> words_;
};

absl::StatusOr<pid_t> spawn(const std::string& program, int stream) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, stream, kStream);
  posix_spawn_file_actions_addclosefrom_np(&actions, kStream + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  reset_signals(attributes);
  const Environment environment;
  std::array<char*, 4> arguments{const_cast<char*>(program.c_str()), const_cast<char*>("nursery"),
                                 environment.before(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments.data(),
                                  environment.get());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return unavailable(strerror(failed));
  return child;
}

}  // namespace

Nursery::Nursery(std::string program)
    : program_(std::move(program)),
      thread_(1, kMostWaiting, [](absl::Span<Task> some) { std::exchange(some.front(), {})(); }) {
  if (!limits_memory()) none_ = unavailable("sanitizers do not survive a copy");
}

Nursery::~Nursery() {
  std::promise<void> closed;
  Task last = [&] {
    close();
    closed.set_value();
  };
  if (thread_.submit(last)) closed.get_future().wait();
}

absl::StatusOr<pid_t> Nursery::start(const std::vector<std::string>& arguments,
                                     absl::Span<const int> descriptors) {
  const std::string words = absl::StrJoin(arguments, absl::string_view(&kBetween, 1));
  if (words.size() > kMostWords || descriptors.size() > kMostDescriptors) {
    return unavailable("these are too many words");
  }
  std::promise<absl::StatusOr<pid_t>> started;
  Task task = [&] { started.set_value(start_here(words, descriptors)); };
  if (!thread_.submit(task)) return unavailable("too many wait for a process");
  return started.get_future().get();
}

// One that has ended is replaced.
absl::StatusOr<pid_t> Nursery::start_here(const std::string& words,
                                          absl::Span<const int> descriptors) {
  for (int tries = 0; tries < 2 && none_.ok(); ++tries) {
    if (stream_ < 0) none_ = open();
    if (!none_.ok()) {
      spdlog::warn("every process for models reads its libraries anew: {}", message(none_));
      break;
    }
    const absl::Status asked = send(stream_, words, descriptors);
    absl::StatusOr<pid_t> child = asked.ok() ? receive(stream_) : asked;
    if (child.ok()) return child;
    close();
  }
  return none_.ok() ? unavailable("processes that copy themselves end") : none_;
}

absl::Status Nursery::open() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return unavailable(strerror(errno));
  }
  const int theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, kAside);
  ::close(ends[1]);
  const absl::StatusOr<pid_t> child = spawn(program_, theirs);
  ::close(theirs);
  stream_ = ends[0];
  pid_ = child.value_or(-1);
  absl::Status ready = child.ok() ? receive(stream_).status() : child.status();
  if (!ready.ok()) close();
  return ready;
}

void Nursery::close() {
  if (stream_ >= 0) ::close(std::exchange(stream_, -1));
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

namespace {

// Some libraries measure the machine with a thread that ends soon.
bool alone() {
  const Time until = monotonic_now() + kOthersEnd;
  while (true) {
    const std::filesystem::directory_iterator threads("/proc/self/task"), end;
    if (std::distance(threads, end) == 1) return true;
    if (monotonic_now() >= until) return false;
    poll(nullptr, 0, 1);
  }
}

// What the C library believes of the only thread, which a copy has to have anew.
struct ThisThread {
  int* number = nullptr;
  void* mutexes = nullptr;  // robust ones, that it holds
  size_t size = 0;

  absl::Status find() {
    if (!alone()) return unavailable("libraries have started threads, which do not end");
    if (prctl(PR_GET_TID_ADDRESS, &number, 0, 0, 0) != 0 || number == nullptr ||
        *number != gettid() || syscall(SYS_get_robust_list, 0, &mutexes, &size) != 0) {
      return unavailable("the kernel or the C library does not say where a thread's number is");
    }
    return absl::OkStatus();
  }
};

// As fork(), but the child is one of the parent's: the library has no call for that.
pid_t copy(const ThisThread& thread) {
  constexpr uint64_t kFlags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
#ifdef __x86_64__
  const auto made = syscall(SYS_clone, kFlags, nullptr, nullptr, thread.number, nullptr);
#else
  const auto made = syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, thread.number);
#endif
  if (made == 0) syscall(SYS_set_robust_list, thread.mutexes, thread.size);
  return static_cast<pid_t>(made < 0 ? -errno : made);
}

struct Order {
  std::string words;
  std::vector<int> descriptors;
};

// False at the end of the stream.
bool read_order(Order& order) {
  order.words.resize(kMostWords);
  order.descriptors.clear();
  iovec bytes{order.words.data(), order.words.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t length = -1;
  do {
    length = recvmsg(kStream, &message, 0);
  } while (length < 0 && errno == EINTR);
  if (length <= 0) return false;
  order.words.resize(static_cast<size_t>(length));
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return true;
  order.descriptors.resize((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(order.descriptors.data(), CMSG_DATA(rights), order.descriptors.size() * sizeof(int));
  return true;
}

[[noreturn]] void be_child(const Order& order, pid_t parent,
                           absl::FunctionRef<int(int argc, char** argv)> run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(EXIT_FAILURE);
  std::vector<int> high;
  for (const int descriptor : order.descriptors) {
    high.push_back(fcntl(descriptor, F_DUPFD_CLOEXEC, kAside));
  }
  for (size_t i = 0; i < high.size(); ++i) dup2(high[i], static_cast<int>(i));
  closefrom(static_cast<int>(high.size()));
  std::vector<std::string> words = absl::StrSplit(order.words, kBetween);
  prctl(PR_SET_NAME, words.front().c_str());
  words.insert(words.begin(), "fermata");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int code = run(static_cast<int>(words.size()), arguments.data());
  std::cout.flush();
  std::cerr.flush();
  std::_Exit(code);
}

}  // namespace

void be_nursery(const std::string& threads, absl::FunctionRef<int(int argc, char** argv)> run) {
  threads.empty() ? unsetenv(kThreads) : setenv(kThreads, threads.c_str(), 1);
  const pid_t parent = getppid();
  const auto answer = [](int64_t number, std::string_view why = {}) {
    std::string text(reinterpret_cast<const char*>(&number), sizeof(number));
    text += why;
    return ::send(kStream, text.data(), text.size(), MSG_NOSIGNAL) > 0;
  };
  prctl(PR_SET_NAME, "nursery");
  (void)ort_runtime();  // children have it then
  ThisThread thread;
  if (absl::Status found = thread.find(); !found.ok()) {
    answer(-ENOSYS, message(found));
    return;
  }
  bool goes_on = answer(0);
  for (Order order; goes_on && read_order(order);) {
    const pid_t child = copy(thread);
    if (child == 0) be_child(order, parent, run);
    for (const int descriptor : order.descriptors) ::close(descriptor);
    goes_on = answer(child);
  }
}

}  // namespace fermata::engine
