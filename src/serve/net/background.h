#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/time.h"
#include "engine/threads/give_way.h"

namespace fermata::serve {

using engine::give_way;
// How long the calling thread has worked so far.
Duration work_of_thread();

// Threads for calls that take long (loading a model, reading a large body), so that front ends
// need not. They are fair: of what waits, that begins first which would end first if every
// connection had an equal share of the threads, by the work that it says to be (weighted fair
// queueing). All threads but the first leave alone what is long, and all but the second what is
// not short either, so that it never makes all of the rest wait.
class Background {
 public:
  struct Price {
    uint64_t connection = 0;
    uint64_t bytes = 0;  // that are read or written at most, one by one
  };
  // Up to so many bytes work is short, and from so many on it is long.
  static constexpr uint64_t kShort = uint64_t{256} << 10, kLong = uint64_t{1} << 20;

  explicit Background(size_t threads = 1);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Work of one price and connection begins in the order in which it was posted. O(log waiting).
  void post(absl::AnyInvocable<void()> work, Price price);
  void post(absl::AnyInvocable<void()> work) { post(std::move(work), Price()); }  // of little work
  // Returns when all of it has run. What is posted from then on runs where it is posted.
  void finish();

 private:
  struct Work {
    absl::AnyInvocable<void()> run;
    Price price;
  };
  // By when it would end, in bytes of each connection, and as which it came.
  using Tag = std::pair<uint64_t, uint64_t>;
  using Queue = std::map<Tag, Work>;

  void run(size_t takes);
  Queue* first(size_t takes);
  absl::AnyInvocable<void()> take(Queue& queue);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Queue, 3>
      queues_;  // of short work, of that between, of long; a thread takes the first
  std::unordered_map<uint64_t, uint64_t> last_;  // tag by connection, of those in the queues
  uint64_t now_ = 0, posted_ = 0;                // now_: bytes that each one's share has had
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fermata::serve
