#include "engine/confine/nursery.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/child.h"
#include "engine/confine/descriptor.h"
#include "engine/confine/nursery_messages.h"

namespace fermata::engine {

absl::Status nursery::send(int stream, std::string_view words, absl::Span<const int> descriptors) {
  iovec bytes{const_cast<char*>(words.data()), words.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  if (sendmsg(stream, &message, MSG_NOSIGNAL) >= 0) return absl::OkStatus();
  return unavailable(strerror(errno));
}

namespace {

using nursery::kAside;
using nursery::kBetween;
using nursery::kMostDescriptors;
using nursery::kMostWords;
using nursery::kStream;
using nursery::kThreads;
using nursery::send;
using nursery::unavailable;

constexpr Duration kLast = Duration::seconds(5);
constexpr Duration kMostPause = Duration::seconds(60);
constexpr size_t kMostWaiting = 1 << 20;

bool is_child(pid_t process) {
  siginfo_t info = {};
  return process > 0 &&
         waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Whose code a hostile model may be: it may say what it wants, and a number that it names would be
// waited for, and killed. The kernel says who has sent a message.
struct Message {
  int64_t number = 0;
  std::string why;
  pid_t sender = -1;
  int descriptor = -1;
};

void read_ancillary(msghdr& message, Message& into) {
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET) continue;
    if (one->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(one), sizeof(sender));
      into.sender = sender.pid;
    } else if (one->cmsg_type == SCM_RIGHTS) {
      std::memcpy(&into.descriptor, CMSG_DATA(one), sizeof(into.descriptor));
    }
  }
}

absl::StatusOr<Message> read_message(int stream, Time until) {
  std::array<char, 256> text{};
  // Of descriptors there is room for one; the kernel closes what there is none for.
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))> control{};
  iovec bytes{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got =
      await_event(stream, POLLIN, until) ? recvmsg(stream, &message, MSG_CMSG_CLOEXEC) : 0;
  Message read;
  constexpr size_t kLength = sizeof(read.number);
  if (got >= 0) read_ancillary(message, read);
  if (got < static_cast<ssize_t>(kLength)) {
    if (read.descriptor >= 0) ::close(read.descriptor);
    return unavailable("a process that copies itself gives no answer");
  }
  std::memcpy(&read.number, text.data(), kLength);
  read.why.assign(text.data() + kLength, static_cast<size_t>(got) - kLength);
  return read;
}

absl::Status why_not(const Message& said) {
  if (said.number >= 0) return absl::OkStatus();
  return unavailable(said.why.empty() ? strerror(static_cast<int>(-said.number)) : said.why);
}

// The number of a child; 0: it is ready to make some.
absl::StatusOr<pid_t> receive(int stream, Time until) {
  ASSIGN_OR_RETURN(const Message said, read_message(stream, until));
  if (said.descriptor >= 0) ::close(said.descriptor);
  RETURN_IF_ERROR(why_not(said));
  if (said.number == 0) return 0;
  if (!is_child(said.sender)) return unavailable("no child says that it is there");
  return said.sender;
}

}  // namespace

Nursery::Nursery(std::string program) : Nursery(std::move(program), Options()) {}

Nursery::Nursery(std::string program, Options options)
    : program_(std::move(program)),
      options_(std::move(options)),
      pause_(options_.again),
      thread_(1, kMostWaiting, [](absl::Span<Task> some) { std::exchange(some.front(), {})(); }) {}

Nursery::Nursery(std::shared_ptr<Nursery> of)
    : of_(std::move(of)),
      options_(of_->options_),
      pause_(options_.again),
      thread_(1, kMostWaiting, [](absl::Span<Task> some) { std::exchange(some.front(), {})(); }) {}

Nursery::~Nursery() {
  (void)on_thread<absl::Status>([this] {
    close();
    return absl::OkStatus();
  });
}

template <class Result>
Result Nursery::on_thread(absl::AnyInvocable<Result()> work) {
  std::promise<Result> done;
  Task task = [&] { done.set_value(work()); };
  if (!thread_.submit(task)) return unavailable("too many wait for a process");
  return done.get_future().get();
}

absl::StatusOr<pid_t> Nursery::start(const std::vector<std::string>& arguments,
                                     absl::Span<const int> descriptors) {
  const std::string words = absl::StrJoin(arguments, absl::string_view(&kBetween, 1));
  if (words.size() > kMostWords || descriptors.size() >= kMostDescriptors) {
    return unavailable("these are too many words");
  }
  auto child = on_thread<absl::StatusOr<pid_t>>([&] { return start_here(words, descriptors); });
  if (child.ok() || of_ == nullptr) return child;
  return of_->start(arguments, descriptors);
}

// One that has ended is replaced.
absl::StatusOr<pid_t> Nursery::start_here(const std::string& words,
                                          absl::Span<const int> descriptors) {
  if (of_ != nullptr && !(text_ && prepared_.ok())) return unavailable("nothing is prepared");
  for (int tries = 0; tries < 2; ++tries) {
    RETURN_IF_ERROR(have());
    absl::StatusOr<pid_t> child = ask(words, descriptors);
    if (child.ok()) return child;
    close();
  }
  return unavailable("processes that copy themselves end");
}

// A child says its number itself and waits to be told to go on: of one whose number nobody has read
// in time, nothing has happened.
absl::StatusOr<pid_t> Nursery::ask(const std::string& words, absl::Span<const int> descriptors) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return unavailable(strerror(errno));
  }
  Descriptor theirs(ends[0]);
  const Descriptor go(ends[1]);
  std::vector<int> all(descriptors.begin(), descriptors.end());
  all.push_back(theirs.get());
  const absl::Status asked = send(stream_, words, all);
  theirs.reset(-1);
  absl::StatusOr<pid_t> child = asked.ok() ? receive_child() : asked;
  // One that was handed out is somebody's: only its owner may wait for it and end it.
  if (child.ok() && (*child == 0 || *child == pid_ || copies_.contains(*child))) {
    child = unavailable("no child is there");
  }
  if (child.ok() && gate_) copies_.insert(*child);
  if (child.ok()) (void)::send(go.get(), "", 1, MSG_NOSIGNAL);  // else who has it sees its end
  return child;
}

absl::StatusOr<pid_t> Nursery::receive_child() {
  // Those that their owners have waited for are gone, and their numbers come again.
  std::erase_if(copies_, [](pid_t copy) { return kill(copy, 0) != 0 && errno == ESRCH; });
  const Time until = monotonic_now() + options_.answer;
  if (gate_) gate_->let_one_copy(pid_, stream_, until);
  return receive(stream_, until);
}

absl::Status Nursery::prepare(const std::string& text) {
  if (text.size() > kMostWords) return unavailable("this is too long a text");
  return on_thread<absl::Status>([&] {
    if (text_ && prepared_.ok()) return prepared_;
    text_ = text;
    prepared_ = have();
    return prepared_;
  });
}

// Code of ours says first how it can be kept from copying itself, before any of the model's.
absl::Status Nursery::prepare_here() {
  RETURN_IF_ERROR(send(stream_, *text_, {}));
  ASSIGN_OR_RETURN(const Message confined,
                   read_message(stream_, monotonic_now() + options_.answer));
  if (confined.descriptor >= 0) gate_.emplace(confined.descriptor);
  RETURN_IF_ERROR(why_not(confined));
  if (!gate_) return unavailable("a process that copies itself does not say what lets it");
  return receive(stream_, monotonic_now() + options_.prepare).status();
}

void Nursery::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (pid_ >= 0) kill(pid_, SIGKILL);
  if (stream_ >= 0) shutdown(stream_, SHUT_RDWR);  // others may have the end of it too
}

// One that could not be had may be had later.
absl::Status Nursery::have() {
  if (stream_ >= 0) return absl::OkStatus();
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return unavailable("the server stops");
  }
  if (monotonic_now() < again_at_) return none_;
  const bool had = none_.ok();
  none_ = limits_memory() ? open() : unavailable("sanitizers do not survive a copy");
  if (none_.ok()) {
    pause_ = options_.again;
    return none_;
  }
  again_at_ = monotonic_now() + pause_;
  pause_ = std::min(pause_ * 2, kMostPause);
  if (had && of_ == nullptr) {
    spdlog::warn("every process for models reads its libraries anew: {}", message(none_));
  }
  return none_;
}

absl::Status Nursery::open() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return unavailable(strerror(errno));
  }
  const int theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, kAside);
  ::close(ends[1]);
  const int yes = 1;
  (void)setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
  {
    const std::lock_guard lock(mutex_);
    stream_ = ends[0];
  }
  const absl::StatusOr<pid_t> child = spawn_one(theirs);
  ::close(theirs);
  absl::Status ready = child.ok() ? receive(stream_, monotonic_now() + options_.answer).status()
                                  : unavailable(message(child.status()));
  if (ready.ok() && text_) ready = prepare_here();
  if (!ready.ok()) close();
  return ready;
}

absl::StatusOr<pid_t> Nursery::spawn_one(int stream) {
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (nothing.get() < 0) return internal("cannot open /dev/null: {}", strerror(errno));
  const std::array<int, 4> first = {nothing.get(), STDERR_FILENO, STDERR_FILENO, stream};
  static_assert(kStream == 3);
  std::vector<std::string> arguments = {"nursery"};
  if (const char* const threads = getenv(kThreads)) arguments.emplace_back(threads);
  absl::StatusOr<pid_t> child;
  if (of_ != nullptr) {
    child = of_->start(arguments, first);
  } else {
    ModelEnvironment environment = environment_of(this);
    environment.set(kThreads, "1");
    arguments.insert(arguments.begin(), program_);
    child = spawn(arguments, first, environment, /*apart=*/true);
  }
  const std::lock_guard lock(mutex_);
  pid_ = child.value_or(-1);
  if (stopped_ && pid_ >= 0) kill(pid_, SIGKILL);
  return child;
}

// Under the mutex: those of which nobody has heard. Its number is its own until it is waited for.
void Nursery::end_copies() {
  kill(pid_, SIGKILL);
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  end_unknown_copies(pid_, copies_);
}

// Children that were asked for and of which nobody has heard end too, then.
void Nursery::close() {
  const bool had_gate = gate_.has_value();
  gate_.reset();
  {
    const std::lock_guard lock(mutex_);
    if (pid_ >= 0 && had_gate) end_copies();
    if (pid_ >= 0) end_child(pid_);
    pid_ = -1;
  }
  if (stream_ < 0) return;
  // Those of what has a gate are ended already, and what it says may be a model's.
  const Time until = monotonic_now() + kLast;
  while (!had_gate && monotonic_now() < until) {
    const auto late = receive(stream_, until);
    if (!late.ok()) break;
    if (*late > 0) end_child(*late);
  }
  copies_.clear();
  const std::lock_guard lock(mutex_);
  ::close(std::exchange(stream_, -1));
}

}  // namespace fermata::engine
