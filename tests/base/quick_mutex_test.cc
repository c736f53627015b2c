#include "base/quick_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace fermata {
namespace {

TEST(QuickMutex, LetsOneInAtATimeAndWakesWhoWaits) {
  constexpr int kThreads = 8, kEach = 20'000;
  QuickMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kEach; ++turn) {
        const std::scoped_lock lock(mutex);
        if (turn % 1000 == 0) std::this_thread::yield();  // others come to wait
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kEach);
}

}  // namespace
}  // namespace fermata
