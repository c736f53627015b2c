#pragma once

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace fermata::engine {

// Where work comes in, which closes only while nobody comes: who comes while it is being tried
// keeps it open, and is never sent away by a try. enter() and leave() from any thread, without a
// lock; the rest from one at a time.
class Door {
 public:
  // False: it is closed. Else leave() is due once the work is where `is_empty` sees it.
  bool enter() {
    ++entering_;
    State seen = State::kTried;
    if (state_.compare_exchange_strong(seen, State::kOpen) || seen == State::kOpen) return true;
    --entering_;
    return false;
  }
  void leave() { --entering_; }

  void open() { state_ = State::kOpen; }
  // Closes it if nobody is in it, what came has gone (`is_empty`) and nobody comes meanwhile.
  bool close_if(absl::FunctionRef<bool()> is_empty) {
    State seen = State::kOpen;
    if (!state_.compare_exchange_strong(seen, State::kTried)) return seen == State::kClosed;
    const bool over = entering_ == 0 && is_empty();
    seen = State::kTried;
    return state_.compare_exchange_strong(seen, over ? State::kClosed : State::kOpen) && over;
  }

 private:
  enum class State : uint8_t { kClosed, kOpen, kTried };
  std::atomic<State> state_ = State::kClosed;
  std::atomic<uint32_t> entering_ = 0;
};

}  // namespace fermata::engine
