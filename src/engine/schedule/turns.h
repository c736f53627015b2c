#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/time.h"
#include "engine/threads/parker.h"

namespace fermata::engine {

// Lets one thread at a time do the work of all (flat combining): whoever brings some does what
// waits if nobody is at it, and else leaves it to the one that is. Nobody waits for another. A
// thread of its own, the resident, does what falls due by time, and what guests may not do or
// leave.
class Turns {
 public:
  struct Left {
    bool more = false;          // there is more that waits
    bool for_resident = false;  // the next piece is none for a guest
    bool over = false;          // the resident ends
    Time due = Time::infinite();
  };
  // Does a few pieces of what waits and of what is due. One thread at a time calls it, and each
  // sees what the one before it did.
  using Work = absl::AnyInvocable<Left(bool guest)>;

  static constexpr Duration kLongest = Duration::micros(100);  // a turn of a guest

  // Without `guests` the resident has all turns.
  explicit Turns(Work work, bool guests = true)
      : guests_(guests), work_(std::move(work)), resident_([this] { reside(); }) {}
  ~Turns() { join(); }

  // After something was brought. The caller is a guest for a turn, or there is somebody else who
  // does it. A turn of a guest is short: it ends after the piece that makes it last longer than
  // kLongest, and where pieces take that long guests take none.
  void take() { take(false); }
  // The same for a caller that may not do it, since it holds locks or what it brought is long.
  void call();
  // Blocks until work was over; nobody may bring anything any more.
  void join();

  // While one exists, take() on its thread does nothing; its end does, for one piece: the thread
  // has something else to do.
  class Later {
   public:
    explicit Later(Turns& turns) : turns_(turns), before_(std::exchange(later_, &turns)) {}
    ~Later() {
      later_ = before_;
      turns_.take(true);
    }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;

   private:
    Turns& turns_;
    Turns* const before_;
  };

 private:
  // Of whose turn it is: nobody's; somebody's, who has seen all that was brought; or has not.
  enum State : uint32_t { kFree, kTaken, kMore };

  void take(bool one_piece);
  bool turn(bool guest, bool one_piece = false);  // false: over
  bool end_turn(Time due);
  void leave();
  void reside();

  static constexpr int64_t kAwake = INT64_MIN;
  static thread_local constinit Turns* later_;

  const bool guests_;
  Work work_;
  std::atomic<State> state_{kFree};
  std::atomic<bool> left_{false};                       // the turn that was taken is the resident's
  std::atomic<bool> long_{false};                       // the last piece was
  std::atomic<int64_t> due_{Time::infinite().nanos()};  // a turn, though nobody comes
  std::atomic<int64_t> asleep_until_{kAwake};           // the resident
  Parker parker_;                                       // of the resident
  std::thread resident_;
};

}  // namespace fermata::engine
