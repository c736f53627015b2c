#include "engine/schedule/turns.h"

#include <concurrentqueue.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace fermata::engine {
namespace {

using Left = Turns::Left;

// Ends what it is given when told to, from the resident as it has to be.
struct Stop {
  std::atomic<bool> now{false};
  Left left(bool guest) const {
    if (!now) return {};
    return {.for_resident = guest, .over = !guest};
  }
  void operator()(Turns& turns) {
    now = true;
    turns.call();
    turns.join();
  }
};

TEST(Turns, EverythingIsDoneOnceByOneAtATime) {
  constexpr uint64_t kThreads = 4, kEach = 20'000;
  moodycamel::ConcurrentQueue<uint64_t> queue;
  uint64_t count = 0, sum = 0;  // without a lock: turns are one after another
  Stop stop;
  Turns turns([&](bool guest) -> Left {
    uint64_t next = 0;
    if (!queue.try_dequeue(next)) return stop.left(guest);
    ++count;
    sum += next;
    return {.more = true};
  });
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        queue.enqueue(i);
        t == 0 && i % 16 == 0 ? turns.call() : turns.take();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop(turns);
  EXPECT_EQ(count, kThreads * kEach);
  EXPECT_EQ(sum, kThreads * (kEach * (kEach - 1) / 2));
}

TEST(Turns, WhoBringsWorkWhereNobodyIsAtItDoesIt) {
  std::thread::id by;
  bool work = true;
  Stop stop;
  Turns turns([&](bool guest) {
    if (work) by = std::this_thread::get_id();
    work = false;
    return stop.left(guest);
  });
  turns.take();
  EXPECT_EQ(by, std::this_thread::get_id());
  stop(turns);
}

TEST(Turns, WhoDoesSomethingElseTakesNoneUntilThatIsDone) {
  bool work = true;
  std::promise<void> done;
  Stop stop;
  Turns turns([&](bool guest) {
    if (std::exchange(work, false)) done.set_value();
    return stop.left(guest);
  });
  {
    const Turns::Later later(turns);
    turns.take();
    EXPECT_TRUE(work);
  }
  done.get_future().get();
  stop(turns);
}

TEST(Turns, TheResidentDoesWhatIsNotForGuests) {
  std::promise<std::thread::id> by;
  bool work = true;
  Stop stop;
  Turns turns([&](bool guest) -> Left {
    if (!work) return stop.left(guest);
    if (guest) return {.for_resident = true};
    work = false;
    by.set_value(std::this_thread::get_id());
    return {};
  });
  turns.take();
  EXPECT_NE(by.get_future().get(), std::this_thread::get_id());
  stop(turns);
}

TEST(Turns, WhatFallsDueIsDoneThoughNobodyComesAndNotBefore) {
  std::atomic<int64_t> due = (monotonic_now() + Duration::seconds(3600)).nanos();
  std::promise<Time> done;
  Stop stop;
  Turns turns([&](bool guest) -> Left {
    Left left = stop.left(guest);
    const Time now = monotonic_now();
    if (due <= now.nanos()) {
      due = Time::infinite().nanos();
      done.set_value(now);
    }
    left.due = Time::from_nanos(due);
    return left;
  });
  turns.take();  // the resident may sleep until then
  const Time sooner = monotonic_now() + Duration::millis(2);
  due = sooner.nanos();
  turns.take();
  EXPECT_GE(done.get_future().get(), sooner);
  stop(turns);
}

}  // namespace
}  // namespace fermata::engine
