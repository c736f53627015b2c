#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/confine.h"
#include "engine/confine/nursery.h"
#include "engine/confine/nursery_messages.h"
#include "engine/onnx/onnx_api.h"

// The nursery's own side.
namespace fermata::engine {

namespace {

using nursery::kAside;
using nursery::kBetween;
using nursery::kMostDescriptors;
using nursery::kMostWords;
using nursery::kStream;
using nursery::kThreads;
using nursery::unavailable;

constexpr Duration kOthersEnd = Duration::seconds(2);

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
#ifdef __x86_64__
  const auto made = syscall(SYS_clone, kCopyFlags, nullptr, nullptr, thread.number, nullptr);
#else
  const auto made = syscall(SYS_clone, kCopyFlags, nullptr, nullptr, nullptr, thread.number);
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

bool answer(int64_t number, std::string_view why = {}) {
  std::string text(reinterpret_cast<const char*>(&number), sizeof(number));
  text += why;
  return ::send(kStream, text.data(), text.size(), MSG_NOSIGNAL) > 0;
}

bool told_to_go_on(int stream) {
  char byte = 0;
  ssize_t got = -1;
  do {
    got = read(stream, &byte, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1;
}

[[noreturn]] void be_child(Order& order, pid_t parent,
                           absl::FunctionRef<int(int argc, char** argv)> run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || !answer(getpid()) || !told_to_go_on(order.descriptors.back())) {
    std::_Exit(EXIT_FAILURE);
  }
  order.descriptors.pop_back();
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

absl::Status let_server_decide(int listener) {
  constexpr int64_t kSound = 0;
  const std::string_view text(reinterpret_cast<const char*>(&kSound), sizeof(kSound));
  absl::Status sent = nursery::send(kStream, text, {listener});
  ::close(listener);  // whoever has it decides
  return sent;
}

void be_nursery(const std::string& threads, absl::FunctionRef<int(int argc, char** argv)> run,
                absl::FunctionRef<absl::Status(std::string_view text)> prepare) {
  threads.empty() ? unsetenv(kThreads) : setenv(kThreads, threads.c_str(), 1);
  (void)setpgid(0, 0);  // by which its copies are known
  const pid_t parent = getppid();
  prctl(PR_SET_NAME, "nursery");
  (void)ort_runtime();  // children have it then
  ThisThread thread;
  if (absl::Status found = thread.find(); !found.ok()) {
    answer(-ENOSYS, message(found));
    return;
  }
  bool goes_on = answer(0);
  for (Order order; goes_on && read_order(order);) {
    if (order.descriptors.empty()) {
      absl::Status prepared = prepare(order.words);
      if (prepared.ok()) prepared = thread.find();
      goes_on = prepared.ok() ? answer(0) : answer(-EINVAL, message(prepared));
      continue;
    }
    const pid_t child = copy(thread);
    if (child == 0) be_child(order, parent, run);
    for (const int descriptor : order.descriptors) ::close(descriptor);
    if (child < 0) goes_on = answer(child);
  }
}

}  // namespace fermata::engine
