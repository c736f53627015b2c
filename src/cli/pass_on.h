#pragma once

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace fermata::cli {

// A thread that waits for a signal which all others block gets it, though a library started one
// before it was blocked, as OpenBLAS does: that thread gives it back, and blocks it from then on.
inline void pass_on(int signal) {
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_sigaction = [](int number, siginfo_t*, void* context) {
    sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, number);
    kill(getpid(), number);
  };
  sigaction(signal, &action, nullptr);
}

// Blocks them in this thread and all that it starts, for one that waits for them; call it first.
inline void keep_for_one_thread(const sigset_t& signals) {
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&signals, each) == 1) pass_on(each);
  }
}

// Whether one of them, which all threads block, comes within that time. A process that is paused
// (SIGSTOP) and goes on waits on: the system's own call ends then.
inline bool await_signal(const sigset_t& signals, Duration limit) {
  const Time until = monotonic_now() + limit;
  while (true) {
    const int64_t left = std::max(Duration(), until - monotonic_now()).nanos();
    const timespec time{left / 1'000'000'000, left % 1'000'000'000};
    if (sigtimedwait(&signals, nullptr, &time) > 0) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace fermata::cli
