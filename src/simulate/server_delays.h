#pragma once

#include "base/time.h"
#include "estimate/control_delay.h"
#include "estimate/reply_delay.h"
#include "policy/types.h"
#include "simulate/recorded_times.h"

namespace fermata::simulate {

// What the server itself takes in a run, and what it has learned of that so far: as recorded, or
// `network` always.
class ServerDelays {
 public:
  ServerDelays(const RecordedDelays& recorded, policy::DelayBound network)
      : recorded_(recorded), network_(network) {}

  bool starts() const { return recorded_.start != nullptr; }
  // From then until a batch that is due starts, its worker is known to be free, it is answered.
  Duration start(Time due) const { return taken(recorded_.start, due); }
  Duration decision(Time end) const { return taken(recorded_.decision, end); }
  Duration reply(Time end) const { return taken(recorded_.reply, end); }

  // What decisions allow for.
  policy::DelayBound bound() const {
    return starts() ? policy::DelayBound{control_.bound(), network_.per_item} : network_;
  }
  // True where bound() has changed.
  bool started(Duration after, Time now) { return starts() && control_.observe(after, now); }
  bool doubted(Time now) { return starts() && control_.doubted(now); }
  void replied(Duration after) { reply_.observe(after); }
  // The deadline that decisions are to keep for a whole one. `alone`: how long the request runs
  // where nothing else is there, else infinite.
  Time planned(Time whole, Time now, Duration alone) const {
    if (whole.is_infinite()) return whole;
    if (starts() && !alone.is_infinite()) return control_.deadline_when_idle(whole, now, alone);
    return recorded_.reply == nullptr ? whole : whole - reply_.allowance(whole - now);
  }

 private:
  static Duration taken(const std::shared_ptr<const MeasuredDelay>& of, Time at) {
    return of == nullptr ? Duration() : of->at(at - Time());
  }

  const RecordedDelays& recorded_;
  policy::DelayBound network_;
  estimate::ControlDelay control_;
  estimate::ReplyDelay reply_;
};

}  // namespace fermata::simulate
