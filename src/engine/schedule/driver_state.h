#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "engine/execute/absence.h"
#include "engine/schedule/driver.h"

namespace fermata::engine {

// What the driver keeps of each part, batch and worker; for its own files only.

struct Driver::Part {
  policy::Task task;
  std::shared_ptr<Job> job;
  uint32_t index = 0, first = 0;
  bool bound = false;
  Time nominated = Time();
  bool left = false;                    // the queue, when it was first bound
  uint32_t lost = 0;                    // processes and hosts that ended while they ran it
  uint32_t cut = 0;                     // runs that came to nothing since a way was cut
  bool late = false;                    // a batch waited with it until its deadline, and let it go
  Time put_off = Time::infinite();      // until then it waits beside the scheduler
  VariantId away = VariantId::none();   // it waits, beside the scheduler, for this one's process
  WorkerId watched = WorkerId::none();  // of another host, which runs it
  Time ask = Time();                    // when that is asked, first at the deadline
  Time asked = Time::infinite();        // when that was, last
};

struct Driver::Query {
  struct Answer {
    std::vector<Tensor> inputs;  // where the base model does not take all of the request's
    absl::Status failure;
    uint32_t lost = 0;  // as Part::lost, of this base model
  };
  explicit Query(size_t models) : answers(models), join(models) {}
  std::vector<Answer> answers;  // by base model
  Join join;
  PartRun run;  // of the batch that ended first
};

struct Driver::InFlight {
  KeyId key;
  uint64_t batch = 0;  // its number, where somebody observes
  std::shared_ptr<const Variant> variant;
  WorkerId worker;
  uint32_t items = 0;
  bool load = false;  // it had to load its variant first
  Time due;           // when the decision to start it fell, or should have fallen
  struct Share {
    JobId part;
    std::shared_ptr<Job> job;
    uint32_t index = 0;
    std::optional<uint32_t> base_model;  // of a query of an ensemble: which one this is
    std::shared_ptr<Query> query;        // whose inputs it reads
    absl::StatusOr<std::vector<Tensor>> answer = std::vector<Tensor>();  // when the batch has ended
    bool failed = false;               // of any, when the batch has ended
    uint32_t lost = 0, cut = 0;        // as the part's, when it was bound
    Absence absence = Absence::kNone;  // why it runs again
    // The same, or none: it has run often enough.
    Absence again_after(Absence how) const;
  };
  std::vector<Share> shares;
  PartRun run;    // set when the batch has ended, but for the choice
  Duration link;  // as BatchResult has both
  uint64_t moved = 0;
  uint32_t chosen = 0;  // of the shares, the first: by that choice; the others joined
  bool all_good = true;
};

struct Driver::Worker {
  std::shared_ptr<Executor> executor;
  uint32_t type = 0;
  uint32_t in_flight = 0;               // its batches under way
  std::atomic<bool> away{false};        // its host is not there
  bool leaving = false;                 // its models go when it runs nothing
  Time rests = Time::infinite();        // it is given nothing until then
  std::set<VariantId> loaded;           // under loaded_mutex_
  Time last_end;                        // of its batches, as the owner knows
  std::atomic<int64_t> reply_nanos{0};  // from its last batch's end until all were answered
  std::atomic<uint64_t> batches{0};
  std::atomic<int64_t> busy_nanos{0};
};

}  // namespace fermata::engine
