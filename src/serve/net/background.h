#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/time.h"
#include "engine/threads/give_way.h"
#include "serve/net/fair_turns.h"

namespace fermata::serve {

using engine::give_way;
// How long the calling thread has worked so far.
Duration work_of_thread();

// Threads for calls that take long (loading a model, reading a large body), so that front ends
// need not. They are fair: of what is short, of what is long and of what is between, every address
// has an equal share, and of that every connection, by the work that it says to be. The first
// thread takes what is long before all else; all others leave that alone, and take what is between
// first; from the third on they take only what is short. So neither makes all of the rest wait.
class Background {
 public:
  struct Price {
    uint64_t connection = 0;
    std::string address;  // its
    uint64_t bytes = 0;   // that are read or written at most, one by one
  };
  // Up to so many bytes work is short, and from so many on it is long.
  static constexpr uint64_t kShort = uint64_t{256} << 10, kLong = uint64_t{1} << 20;

  explicit Background(size_t threads = 1);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Work of one connection, and of one of the three kinds, begins in the order in which it was
  // posted. O(log waiting).
  void post(absl::AnyInvocable<void()> work, Price price);
  void post(absl::AnyInvocable<void()> work) { post(std::move(work), Price()); }  // of little work
  // Returns when all of it has run. What is posted from then on runs where it is posted, or, where
  // another thread or such work itself runs some, after that.
  void finish();

 private:
  using Work = absl::AnyInvocable<void()>;
  // Of one connection, in the order in which it came.
  class Line {
   public:
    bool empty() const { return waiting_.empty(); }
    uint64_t bytes() const { return waiting_.front().bytes; }
    uint64_t posted() const { return waiting_.front().posted; }
    void push(Work work, uint64_t bytes, uint64_t posted) {
      waiting_.push_back({std::move(work), bytes, posted});
    }
    Work pop() {
      Work work = std::move(waiting_.front().work);
      waiting_.pop_front();
      return work;
    }

   private:
    struct Waiting {
      Work work;
      uint64_t bytes, posted;
    };
    std::deque<Waiting> waiting_;
  };
  class OfAddress : public FairTurns<uint64_t, Line> {};
  using Queue = FairTurns<std::string, OfAddress>;

  void run(size_t takes);
  void run_rest(std::unique_lock<std::mutex>& lock);
  static void run_first(Queue& queue, std::unique_lock<std::mutex>& lock);
  Queue* last(size_t takes);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Queue, 3> queues_;  // of short work, of that between, of long
  uint64_t posted_ = 0;
  bool stopping_ = false, finished_ = false, runs_rest_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fermata::serve
