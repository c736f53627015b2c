#include "engine/confine/copy_gate.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "engine/confine/child.h"

namespace fermata::engine {
namespace {

// Of this kernel, which may have longer ones than its headers here say.
struct Sizes {
  Sizes() {
    seccomp_notif_sizes own{};
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &own) != 0) return;
    asked = std::max<size_t>(asked, own.seccomp_notif);
    answer = std::max<size_t>(answer, own.seccomp_notif_resp);
  }
  size_t asked = sizeof(seccomp_notif), answer = sizeof(seccomp_notif_resp);
};

}  // namespace

CopyGate::~CopyGate() { close(listener_); }

// True where it let it.
bool CopyGate::answer_one(pid_t process) {
  static const Sizes sizes;
  std::vector<std::byte> asked_bytes(sizes.asked), answer_bytes(sizes.answer);
  auto& asked = *reinterpret_cast<seccomp_notif*>(asked_bytes.data());
  auto& answer = *reinterpret_cast<seccomp_notif_resp*>(answer_bytes.data());
  if (ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return false;  // it has ended
  const bool may = static_cast<pid_t>(asked.pid) == process;
  answer.id = asked.id;
  // The call's arguments, which the filter has seen, are in registers: nobody can change them now.
  if (may) answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  if (!may) answer.error = -EPERM;
  return ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 && may;
}

void CopyGate::let_one_copy(pid_t process, int stream, Time until) {
  constexpr pid_t kNobody = -1;
  for (Time now = monotonic_now(); now < until; now = monotonic_now()) {
    const double left_ms = (until - now).millis();
    std::array<pollfd, 2> ready = {{{stream, POLLIN, 0}, {listener_, POLLIN, 0}}};
    const int found = poll(ready.data(), ready.size(), static_cast<int>(std::ceil(left_ms)));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0 || ready[0].revents != 0 || (ready[1].revents & POLLIN) == 0) return;
    if (answer_one(process)) process = kNobody;
  }
}

// By /proc/PID/stat: "PID (NAME) STATE PARENT GROUP ...", where NAME may be anything.
void end_unknown_copies(pid_t process, const std::set<pid_t>& known) {
  std::error_code gone;
  for (std::filesystem::directory_iterator entry("/proc", gone), end; entry != end;
       entry.increment(gone)) {
    const auto child = static_cast<pid_t>(std::atoi(entry->path().filename().c_str()));
    if (child <= 0 || child == process || known.contains(child)) continue;
    std::ifstream file(entry->path() / "stat");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 4 > text.size()) continue;
    char* rest = nullptr;
    const long parent = std::strtol(text.c_str() + name_end + 4, &rest, 10);
    const long group = std::strtol(rest, nullptr, 10);
    if (parent != getpid() || group != process) continue;
    end_child(child);
  }
}

}  // namespace fermata::engine
