#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace fermata::serve {

// Threads for calls that take long (loading a model, reading a large body), so that front ends
// need not. They begin in the order in which they were posted.
class Background {
 public:
  explicit Background(size_t threads = 1);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(absl::AnyInvocable<void()> work);
  // Returns when all of it has run. What is posted from then on runs where it is posted.
  void finish();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::AnyInvocable<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fermata::serve
