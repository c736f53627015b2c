#pragma once

#include <vector>

#include "policy/pool/view.h"
#include "policy/types.h"

namespace fermata::policy {

// When and where: which offer gets which worker. Knows workers and offers, never
// a task. Between a grant and its answer neither the worker nor that key's older
// offers are considered, so batchers may answer late, from other threads.
class Ranker {
 public:
  virtual ~Ranker() = default;

  virtual void add_key(KeyId key) = 0;
  virtual void add_worker(WorkerId worker, uint32_t type, int64_t memory_bytes, Time now,
                          std::vector<Grant>& out) = 0;
  virtual void set_delay_bound(DelayBound bound) = 0;

  virtual void offered(const Offer& offer, Time now, std::vector<Grant>& out) = 0;
  virtual void answered(const Answer& answer, Time now, std::vector<Grant>& out) = 0;
  // The worker has really ended a batch, early, late or when expected.
  virtual void freed(WorkerId worker, Time now, std::vector<Grant>& out) = 0;
  // Whether it may get batches; what it runs ends, and freed() says so.
  virtual void set_available(WorkerId worker, bool available, Time now,
                             std::vector<Grant>& out) = 0;
  virtual void tick(Time now, std::vector<Grant>& out) = 0;

  virtual Time next_wake() const = 0;
  // Until a worker is expected to take something that wants to start now, behind everything that
  // does already; zero if one is free. O(workers).
  virtual Duration expected_wait(Time now) const = 0;
  // For the thread that the ranker runs in, which adds what batches run and what workers hold.
  virtual PoolView& view() = 0;
};

}  // namespace fermata::policy
