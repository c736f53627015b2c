#pragma once

#include "base/time.h"

namespace fermata::policy {

// How many frames a second a client of a stream counts for: those that were taken of it, averaged
// over the last second or so, or over two of its frames where it sends few. A new one counts with
// what it says, as far as it is believed, for as long as a silent one is remembered: three seconds,
// or two of its frames. Then a client that sends nothing counts nothing. Pure; `now` never goes
// back; every call is O(1).
class FrameRate {
 public:
  FrameRate() = default;
  // `believed_rps`: what of its word counts while it is new.
  FrameRate(double said_rps, double believed_rps, Time now);

  void say(double rps) { said_rps_ = rps; }
  double said() const { return said_rps_; }
  Time came() const { return came_; }
  // Of which some were taken lately.
  bool has_frames(Time now) const { return measured(now) > 0; }
  // A frame was taken, which counts as so many.
  void count(double frames, Time now);
  // 0: it is silent. At most what it says.
  double per_second(Time now) const;
  // What was believed of its word, once, when it has sent half as much; before and after that 0.
  double take_proven();

 private:
  Duration longest_silence() const;
  double window() const;  // seconds
  double measured(Time now) const;

  double said_rps_ = 0, believed_rps_ = 0;
  double owed_rps_ = 0;  // of what is believed, until it is proven
  Time came_, last_;
  double level_ = 0;  // frames, each worth less the older it is
};

}  // namespace fermata::policy
