#include "engine/schedule/turns.h"

#include "base/clock.h"

namespace fermata::engine {

thread_local constinit Turns* Turns::later_ = nullptr;

void Turns::take(bool one_piece) {
  if (later_ == this || state_.exchange(kMore) != kFree) return;
  if (!guests_ || long_.load(std::memory_order_relaxed)) return leave();
  turn(true, one_piece);
}

void Turns::call() {
  if (state_.exchange(kMore) == kFree) leave();
}

void Turns::join() {
  if (resident_.joinable()) resident_.join();
}

// The turn stays taken.
void Turns::leave() {
  left_.store(true);
  parker_.unpark();
}

bool Turns::turn(bool guest, bool one_piece) {
  const Time began = monotonic_now();
  for (Time from = began;;) {
    state_.exchange(kTaken);
    const Left left = work_(guest);
    const Time now = monotonic_now();
    const bool is_long = now - from > kLongest;
    if (long_.load(std::memory_order_relaxed) != is_long) long_ = is_long;
    from = now;
    if (left.over) return false;
    if (!left.more && !left.for_resident && end_turn(left.due)) return true;
    if (guest && (left.for_resident || one_piece || now - began > kLongest)) {
      leave();
      return true;
    }
  }
}

// False: more was brought meanwhile. Of a resident that falls asleep and a turn that ends, one sees
// what the other has stored.
bool Turns::end_turn(Time due) {
  due_.store(due.nanos());
  State seen = kTaken;
  if (!state_.compare_exchange_strong(seen, kFree)) return false;
  if (due.nanos() < asleep_until_.load()) parker_.unpark();
  return true;
}

void Turns::reside() {
  while (true) {
    const int64_t due = due_.load();
    const bool is_due = due <= monotonic_now().nanos();
    if (left_.exchange(false) || (is_due && state_.exchange(kMore) == kFree)) {
      if (!turn(false)) return;
      continue;
    }
    // Where it is due and somebody is at it, the end of that turn wakes the resident.
    const Time until = is_due ? Time::infinite() : Time::from_nanos(due);
    asleep_until_.store(until.nanos());
    if (is_due ? state_.load() != kFree : due_.load() >= due) parker_.park_until(until);
    asleep_until_.store(kAwake);
  }
}

}  // namespace fermata::engine
