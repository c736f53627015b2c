#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace fermata::simulate {

// What happened in a run, for checkers. A batch is one kStarted, followed by one
// kTaken for each of its requests; a query of an ensemble may be taken by several, and ends
// when it is concluded. A request that has children is opened and closed, or given up where one of
// them was; they are requests of their own, which name it.
struct TraceEvent {
  enum Kind : uint8_t {
    kArrived,
    kStarted,
    kTaken,
    kDropped,
    kShortCircuited,
    kConcluded,
    kWithdrawn,
    kOpened,
    kClosed,
    kGivenUp,
  };
  Kind kind;
  uint32_t items;   // of the request, or of the batch; of kConcluded the Subset that answered; of
                    // kClosed how many it turned into
  KeyId key;        // its place among the scenario's models, then of each variants service its own
                    // variants and the service itself, then of ensembles the same, then pipelines
  WorkerId worker;  // of kStarted
  JobId job;        // of the others
  Time at;          // when it arrived, was decided on, or was dropped
  // kArrived: its deadline. kStarted: when the batch starts and ends.
  Time start, end;
  bool load = false;             // of kStarted: the variant is loaded first, within that time
  JobId parent = JobId::none();  // of kArrived and kOpened
};
using Trace = std::vector<TraceEvent>;

}  // namespace fermata::simulate
