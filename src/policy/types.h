#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "model/latency.h"

namespace fermata::policy {

// One unit of work that waits for a batch: a job, or a part of one, nominated
// for one batch key. `job` is unique among all waiting tasks of a scheduler.
struct Task {
  JobId job;
  KeyId key;
  Time arrival;
  Time deadline;       // Time::infinite(): none, least urgent
  uint32_t items = 1;  // 1..max_batch of the key; a chooser splits what is larger
};

// What a batcher could run now. start_at: from when on it wants a worker;
// latest_start: the last moment at which all of it still ends in time with one
// more item (deferred) or as it is; invalid_after: no batch of this size meets
// the head's deadline any more. (Symphony appendix C: Candidate.)
struct Offer {
  KeyId key;
  uint32_t items = 0;
  Time start_at;
  Time latest_start;
  Time invalid_after;
  Time deadline;       // the earliest in it
  uint64_t epoch = 0;  // of the batcher; a grant for an older one is void
};

struct Grant {
  KeyId key;
  WorkerId worker;
  Time free_at;        // when the worker is expected to be free
  uint64_t epoch = 0;
};

// Bound: these tasks run on this worker from `start`, expected to end at
// `finish`. Nothing revokes it.
struct Batch {
  KeyId key;
  WorkerId worker;
  Time start, finish;
  uint32_t items = 0;
  std::vector<Task> tasks;
};

// Refused: cannot end in time any more. wait and run are what it would have
// met from `now` on: the expected wait for a worker and the run time alone.
struct Dropped {
  Task task;
  Duration wait, run;
};

struct KeyInfo {
  std::string name;                             // for traces and errors
  std::shared_ptr<const LatencyTable> latency;  // max_batch is the table's
  Duration slo = Duration::infinite();          // typical relative deadline
};

// A5: how long before a batch starts its decision must be made, for control
// messages and for fetching the data of `items` items. (Symphony appendix C.)
struct DelayBound {
  Duration control, per_item;
  Duration operator()(uint32_t items) const { return control + per_item * items; }
};

}  // namespace fermata::policy
