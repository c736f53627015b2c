#include "cli/pass_on.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <thread>

namespace fermata::cli {
namespace {

TEST(PassOn, ASignalReachesWhoWaitsForItThoughAnEarlierThreadGetsIt) {
  std::promise<void> over;
  std::thread early([end = over.get_future().share()] { end.wait(); });  // blocks nothing
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  pass_on(SIGUSR2);
  for (int times = 0; times < 2; ++times) {
    if (times == 0) {
      pthread_kill(early.native_handle(), SIGUSR2);
    } else {
      kill(getpid(), SIGUSR2);
    }
    int got = 0;
    EXPECT_EQ(sigwait(&signals, &got), 0);
    EXPECT_EQ(got, SIGUSR2);
  }
  over.set_value();
  early.join();
  std::signal(SIGUSR2, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace fermata::cli
