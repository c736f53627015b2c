#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace fermata::policy {

// How a request, or a part of one, came to its end.
enum class Ending : uint8_t { kAnswered, kRejected, kFailed };

// What is expected of work that has not begun: how long it will wait, and how long it will run.
struct Ahead {
  Duration wait, run;
  Duration total() const { return wait + run; }
};

inline constexpr uint32_t kAnyOption = ~uint32_t{0};
inline constexpr uint32_t kNoChild = ~uint32_t{0};

// A part of a composite request: a request for one of the service's members.
struct Child {
  enum State : uint8_t { kNotYet, kRunning, kDone, kSkipped };
  State state = kNotYet;
  JobId id;  // the latest, where it was tried again
  ServiceId service;
  uint32_t option = kAnyOption;  // of a stage's: which of its variants; any may answer
  uint32_t items = 0, made = 0;  // that went in; that came out
  Time started;
  Time due;   // until when its answer is wanted
  Time last;  // after which the rest cannot make it: where it is rejected, it may be tried again
  bool begun = false;  // as Task has it
  bool again = false;  // it was tried before
  uint32_t plan = 0;   // by which it was started
};

// A request for a composite service: what a chooser decides on.
struct Node {
  JobId id;
  ServiceId service;
  Time arrival, deadline;  // infinite: none
  uint32_t items = 1;
  bool begun = false;            // as Task has it
  std::vector<Child> children;   // as the chooser numbers them
  Time wake = Time::infinite();  // see ServiceTree::wake
  // The chooser's own: counts, and what it believes that members, or subsets of them, are worth.
  uint32_t open = 0, made = 0;
  uint32_t infeasible = kNoChild;  // not started, since the rest could not make it: the node ends
  std::vector<double> worth;
};

}  // namespace fermata::policy
