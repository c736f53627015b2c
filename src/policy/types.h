#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "model/latency_by_type.h"

namespace fermata::policy {

// One unit of work that waits for a batch: a job, or a part of one, nominated
// for one batch key. `job` is unique among all waiting tasks of a scheduler.
struct Task {
  JobId job;
  KeyId key;
  Time arrival;
  Time deadline;       // Time::infinite(): none, least urgent
  uint32_t items = 1;  // 1..max_batch of the key; a chooser splits what is larger
  // From when on its batch starts as soon as a worker is free, instead of hoping to grow, since
  // what planned for it counts on that; infinite: that is the policy's to say.
  Time start_from = Time::infinite();
  // Worker time has gone into its request already, as a later stage of a pipeline.
  bool begun = false;
};

// Types of workers are numbered from 0, at most so many. A key whose latencies are by type has one
// for each type that the pool's workers have, and for no other.
inline constexpr uint32_t kMostWorkerTypes = 32;
inline constexpr uint32_t kAnyType = ~uint32_t{0};

// What of a key the pool's account has to know (policy/pool/account.h).
struct Outlook {
  double rate = 0;       // items a second, with a deadline, that are expected
  Time seen;             // when the last came
  double variation = 1;  // of those that come within a deadline, see estimate/variation.h
  Duration alone;        // how long one of them runs
  double load = 0;       // workers that they keep busy in batches of the target size
  // What they are worth a second that lately are lost, and were not if there were more workers.
  double lost = 0;
  Duration slack = Duration::infinite();  // how long one that comes can wait before it must start
  // Of rate, those that can wait more than twice as long, and how long on average.
  double loose_rate = 0;
  Duration loose_slack;
  uint32_t waiting = 0;    // items with a deadline, that may be in time
  Time first_by, last_by;  // of these, when the first and the last must start, alone
};

// Why a batch starts when it does. docs/policies.md says more.
enum class StartRule : uint8_t {
  kAtOnce,           // the policy holds no batch
  kLatestStart,      // with one item more its first request would be late
  kEarly,            // before that, as workers lately came late or more would not be worth the wait
  kFullBatch,        // it has as many items as a batch may have
  kNoMatesExpected,  // nobody else is expected in time
  kSpareWorkers,     // there are workers enough for every item alone
  kHeldLongEnough,   // it would wait longer than is worth a larger batch
  kPlanned,          // at the time that was planned for it, or a pipeline has begun with it
  kBestEffort,       // nothing in it has a deadline
  kChosen,           // which models answer, and for whom, was decided when the worker came free
};
std::string_view name(StartRule rule);  // "latest_start"

// What a batcher could run, for the ranker (Symphony appendix C: Candidate).
// Only the latest offer of a key counts.
struct Offer {
  KeyId key;
  uint32_t items = 0;        // 0: nothing waits
  Time start_at;             // from when on it wants to start; before, it hopes to grow
  Time urgency;              // among offers that want to start, the earliest is served first
  bool planned = false;      // when it starts, or begun (Task): it is not held for others' sake
  bool best_effort = false;  // nothing in it has a deadline: runs when no one else wants the worker
  // Its batches begin whenever a worker is free and may be long: others who wait for their last
  // moment to start would find no worker then, as among bursts.
  bool at_any_time = false;
  Duration run;  // of the batch as it is
  // Without a deadline: of a batch that is cut as short as it can be; 0: it cannot be cut.
  Duration least;
  uint32_t types = kAnyType;  // of workers that may run it: a bit each
  uint64_t epoch = 0;         // of the batcher; a grant for an older one is void
  StartRule rule = StartRule::kAtOnce;
  Outlook outlook;
};

// How many items of other keys a batch of this key makes late, by how long it runs: late[i] for
// (i + 1) / kHarmSteps of `run`.
inline constexpr size_t kHarmSteps = 8;
struct Harm {
  Duration run;
  std::array<float, kHarmSteps> late{};
};

// A worker for the next batch of a key.
struct Grant {
  KeyId key;
  WorkerId worker;
  uint32_t worker_type = 0;
  Time free_at;  // when the worker is, or is expected to be, free
  // Of the worker time, what lately went to Offer::at_any_time.
  double at_any_time = 0;
  uint64_t epoch = 0;
  Duration others_slack = Duration::infinite();  // the least Outlook::slack of the other keys
  Harm harm;
  double load = 0;       // Outlook::load of all keys, by worker
  double unbatched = 0;  // what it would be if each item ran alone
  Duration burst;        // see Load in policy/pool/account.h
  // When a batch of which nothing has a deadline had better end, for others' sake.
  Time until = Time::infinite();
};

// The answer to a grant: the worker's batch is expected to end at free_at; or
// nothing could be run and the worker is as free as it was.
struct Answer {
  WorkerId worker;
  bool started = false;
  Time free_at;
};

// Bound: these tasks run on this worker from `start`, expected to end at
// `finish`. Nothing revokes it.
struct Batch {
  KeyId key;
  WorkerId worker;
  Time start, finish;
  uint32_t items = 0;
  std::vector<Task> tasks;
  bool load = false;  // start to finish includes loading the variant on the worker
  StartRule rule = StartRule::kAtOnce;
  Time wanted;  // from when on its batcher wanted it to start; zero: since its first task came
  // Of tasks that several keys may answer: for the first `chosen` this one was chosen, by a worker
  // second's price, or by a published plan, which has none; the others joined where there was room.
  uint32_t chosen = 0;
  std::optional<double> price;
};

// Refused: cannot end in time any more. What it would have met from `now` on: the expected wait for
// a worker, the run time alone, and the delay until a batch starts that decisions allow for.
struct Dropped {
  Task task;
  Duration wait, run, allowance;
  // No worker could have saved it, even if one had been free when it came.
  bool infeasible() const { return task.deadline - run - allowance < task.arrival; }
};

struct KeyInfo {
  std::string name;                     // for traces and errors
  LatencyByType latency;                // max_batch is the slowest table's
  Duration slo = Duration::infinite();  // typical relative deadline
  double rate_rps = 0;                  // expected, for static placement; 0: unknown
  // What a worker loads for it; keys of one variant, or of one dynamic network, share that.
  VariantId variant;
  Duration load;
  int64_t memory_bytes = 0;
};

// A worker's memory for variants. With a limit they are loaded when they are needed, and the
// least recently used go; without one all are there from the beginning.
inline constexpr int64_t kUnlimitedMemory = std::numeric_limits<int64_t>::max();

// How long before a batch starts its decision must be made, for control
// messages and for fetching the data of `items` items. (Symphony appendix C.)
struct DelayBound {
  Duration control, per_item;
  Duration operator()(uint32_t items) const { return control + per_item * items; }
};

}  // namespace fermata::policy
