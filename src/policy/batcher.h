#pragma once

#include <cstdint>

#include "policy/pool/view.h"
#include "policy/scheduler.h"
#include "policy/types.h"

namespace fermata::policy {

struct Rules;

// With whom: the waiting tasks of one key and the batch that they would make.
// Knows nothing of workers or of other keys, so that batchers of different keys
// may run on different threads; offers go to the ranker, grants come back.
// Every call carries `now`, which never goes back. After each, offer() and next_wake() may have
// changed; after a nomination or a withdrawal they have from the next tick() on, so that many of
// one moment are decided on once.
class Batcher {
 public:
  virtual ~Batcher() = default;

  // tick() follows before offer(), next_wake() or a later `now`.
  virtual void nominated(const Task& task, Time now) = 0;
  virtual bool withdrawn(const Task& task) = 0;  // the same; false where it does not wait
  // Binds the batch that is best on this worker now, if any.
  virtual Answer granted(const Grant& grant, Time now, Decisions& out) = 0;
  // Decides on what has come and gone. To be called at next_wake(), or as soon after as can be.
  virtual void tick(Time now, Decisions& out) = 0;
  // Adds waiting tasks to a batch of this key that another batcher has bound to a worker of this
  // type, as many as let it end by `limit` and by their own deadlines.
  virtual void join(Batch&, uint32_t /*type*/, Time /*limit*/, Time /*now*/, Decisions&) {}
  virtual void set_latency(LatencyByType latency, Time now, Decisions& out) = 0;
  virtual void set_delay_bound(DelayBound bound) = 0;
  // What waits is decided on anew, by these. Nothing where it does not follow rules.
  virtual void set_rules(const Rules&, Time /*now*/, Decisions&) {}

  virtual const Offer& offer() const = 0;
  virtual Time next_wake() const = 0;
  virtual uint64_t waiting_items() const = 0;
};

}  // namespace fermata::policy
