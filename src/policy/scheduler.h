#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/service.h"
#include "policy/types.h"

namespace fermata::policy {

// What one call decided. The caller acts on it, in order, and clears it.
class Decisions {
 public:
  std::vector<Batch> bound;
  std::vector<Dropped> dropped;
  std::vector<Concluded> concluded;

  bool empty() const { return bound.empty() && dropped.empty() && concluded.empty(); }
  // Empties all; the batches' memory is kept for add_batch() unless the caller
  // moved it out.
  void clear();
  Batch& add_batch();

 private:
  std::vector<std::vector<Task>> spare_;
};

// A worker's batch has really ended.
struct BatchEnd {
  // Most batches have an answer for every task.
  BatchEnd(WorkerId on, std::span<const Task> no_answer = {}, std::span<const Task> not_yet = {})
      : worker(on), failed(no_answer), away(not_yet) {}
  WorkerId worker;
  std::span<const Task> failed;  // of its tasks, those that it has no answer for
  // Of ensembles' queries, others that it has none for, but may have later: its key may run for
  // them again when that is learned (Again).
  std::span<const Task> away;
};

// What slower loops have planned and carried out on a worker. Whether it serves: one that does not
// gets no batch, and what it runs ends as it would.
struct Serving {
  WorkerId worker;
  bool serves = true;
};
// It has loaded a variant (KeyInfo::variant) before anybody needs it, or is about to let it go.
// From then on batches of such a variant run on workers of the types that have it, while any has.
// Policies that choose workers otherwise load it where they run it.
struct LoadedAhead {
  WorkerId worker;
  VariantId variant;
  bool there = true;
};
// Whether batches of a key may run on it: whatever they need may be out of its reach, while others
// have it. Where none of those that serve may run them, this says nothing.
struct Reaches {
  KeyId key;
  WorkerId worker;
  bool reaches = true;
};
using Plan = std::variant<Serving, LoadedAhead, Reaches>;

// The passive core that both drivers feed: batchers, one per key, and one
// ranker, wired together in one thread. No clock, no thread: every call carries
// `now`, which never goes back, and fills `out`. After each call the driver must
// call tick() at next_wake() at the latest (or as soon after as it can; being
// late costs quality, never correctness).
//
// Every nominated task ends exactly once: in one Batch, in one Concluded, in one Dropped, or by
// withdraw() returning true. But a query of an ensemble may be in several batches, one of each of
// its base models; it ends in one Concluded, in one Dropped (then it was in no batch), or by
// withdraw() returning true.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  virtual KeyId add_key(KeyInfo info) = 0;
  virtual void remove_key(KeyId key) = 0;  // nothing of it may wait; its id may come again
  virtual void update_latency(KeyId key, LatencyByType latency, Time now, Decisions& out) = 0;
  virtual void set_delay_bound(DelayBound bound) = 0;
  // `type` picks from a key's latencies. Where memory has a limit, batches say what has
  // to be loaded for them (Batch::load) and the least recently used goes.
  virtual WorkerId add_worker(Time now, Decisions& out, uint32_t type = 0,
                              int64_t memory_bytes = kUnlimitedMemory) = 0;

  // Whether workers may leave and come back. Where not, none is planned that does not serve.
  virtual bool workers_may_leave() const { return false; }
  virtual void planned(const Plan& plan, Time now, Decisions& out);

  // Follows these rules from now on; nothing that waits is lost. False: this policy has none.
  virtual bool set_rules(const Rules&, Time /*now*/, Decisions&) { return false; }

  // Whether it serves services of the kind. Of no other may one be added.
  virtual bool serves(Kind) const { return false; }
  // A key for tasks of one item, which batches of the keys that the service names answer; those
  // were added before and stay as long as it does.
  virtual KeyId add_service(const ServiceInfo& info);
  // What the data of a task says that was nominated; nothing where it has ended.
  virtual void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out);

  virtual void nominate(const Task& task, Time now, Decisions& out) = 0;
  // False where it is bound already: a withdrawal that crosses a grant loses.
  virtual bool withdraw(const Task& task, Time now, Decisions& out) = 0;
  // The first of the worker's batches that have not ended.
  virtual void ended(const BatchEnd& batch, Time now, Decisions& out) = 0;
  virtual void tick(Time now, Decisions& out) = 0;
  virtual Time next_wake() const = 0;  // infinite: nothing to wait for

  virtual uint64_t waiting_items(KeyId key) const = 0;
  // What the last choices for services of several keys were made from, of each kind the newest
  // first.
  virtual std::vector<Problem> last_problems() const { return {}; }
};

// Puts itself before a scheduler, to see all that it is told and decides.
using Listener = std::function<std::unique_ptr<Scheduler>(std::unique_ptr<Scheduler>)>;

// The names of the contract: fermata, deferred, deferred-beta-lambda,
// deferred-prefix, eager, clockwork, edf, nexus. Unknown: INVALID_ARGUMENT with the list.
// And for services as published: sneakpeek, grouped, lo-priority, lo-edf, maxacc-edf. And for
// ensembles: schemble, greedy-edf, greedy-fifo, greedy-sjf, original, static, selected.
absl::StatusOr<std::unique_ptr<Scheduler>> make_scheduler(std::string_view policy,
                                                          const ServiceSettings& settings = {});
std::vector<std::string_view> scheduler_names();  // those that refuse what would be late
std::vector<std::string_view> all_scheduler_names();

}  // namespace fermata::policy
