#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace fermata::serve {

// One thread for calls that block (loading a model), so that front ends need
// not. In order.
class Background {
 public:
  Background();
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(absl::AnyInvocable<void()> work);
  // Returns when all of it has run; nothing may be posted any more.
  void finish();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::AnyInvocable<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fermata::serve
