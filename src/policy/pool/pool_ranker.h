#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/batch/min_tree.h"
#include "policy/pool/account.h"
#include "policy/pool/view.h"
#include "policy/rules.h"

namespace fermata::policy {

// When and where: which offer gets which worker. Knows workers and offers, never
// a task. Between a grant and its answer neither the worker nor that key's older
// offers are considered, so batchers may answer late, from other threads.
//
// As Symphony 4.3 has it: an offer that wants to start gets a free worker at
// once; where there is none, a worker that becomes free goes to the most urgent
// offer among those that want to start and may run on its type. Of several free workers
// the lowest type is taken (by an offer without deadline the highest), and of these the lowest
// id, so that the highest ones stay idle and can be given back.
// Rules may make it keep the account of account.h besides. Then an offer that would take one of the
// last free workers and make others late waits until its own last moment or until the next worker
// is expected to be free, whichever is first; where it cannot wait and takes the last one,
// Grant::harm says what its run does to others. Each call is O(types * (log keys + log workers))
// for each grant it makes, plus O(keys + workers) where a worker is idle and offers without
// deadline wait, O(log keys) for each of these once in 50 ms, and O(workers) for a key whose
// batches the next worker must not run.
class PoolRanker {
 public:
  explicit PoolRanker(const Rules& rules = {}) : rules_(rules) {}

  void add_key(KeyId key);
  void add_worker(WorkerId worker, uint32_t type, int64_t memory_bytes, Time now,
                  std::vector<Grant>& out);
  void set_delay_bound(DelayBound bound) { delay_ = bound; }
  // Whoever waits for others' sake is looked at again, by these.
  void set_rules(const Rules& rules, Time now, std::vector<Grant>& out);

  void offered(const Offer& offer, Time now, std::vector<Grant>& out);
  void answered(const Answer& answer, Time now, std::vector<Grant>& out);
  // The worker has really ended a batch, early, late or when expected.
  void freed(WorkerId worker, Time now, std::vector<Grant>& out);
  // Whether it may get batches; what it runs ends, and freed() says so.
  void set_available(WorkerId worker, bool available, Time now, std::vector<Grant>& out);
  void set_reaches(KeyId key, WorkerId worker, bool reaches, Time now, std::vector<Grant>& out);
  void tick(Time now, std::vector<Grant>& out) { match(now, out); }

  Time next_wake() const;
  // Until a worker is expected to take something that wants to start now, behind everything that
  // does already; zero if one is free. O(workers).
  Duration expected_wait(Time now) const;
  // For the thread that the ranker runs in, which adds what batches run and what workers hold.
  PoolView& view() { return view_; }

 private:
  static constexpr Time kIdle = Time::from_nanos(-1);  // sorts before every running worker

  // Workers of one type, and what wants to start on them.
  struct Type {
    MinTree due;        // by key: urgency of offers that want to start
    MinTree available;  // by worker: kIdle, or when a running one is expected to be free
  };

  void match(Time now, std::vector<Grant>& out) {
    const bool none = best_effort_.top().is_infinite() && now < look_again_;
    if (later_.top() > now && none && !any_due()) [[likely]]
      return;
    match_some(now, out);
  }
  void match_some(Time now, std::vector<Grant>& out);
  bool grant_due(Time now, std::vector<Grant>& out);
  bool grant_best_effort(Time now, std::vector<Grant>& out);
  enum class Given { kWorker, kNothing, kTooLong };  // the last: it waits, others behind it not
  // What a type's next worker may be given, the same for all keys of which nobody has a deadline.
  struct Room {
    std::optional<Time> until;
    std::optional<bool> others_bear;
  };
  Given grant_best_effort(KeyId key, std::vector<Room>& rooms, Time now, std::vector<Grant>& out);
  void look_again();
  std::optional<WorkerId> worker_for(const Offer& offer, WorkerId first, uint32_t types) const;
  void hold_until(size_t key, Time until);
  bool holds(size_t key, WorkerId worker, Time now, Harm& harm);
  void release_held(Time now);
  void learn(const Answer& answer, Time now);
  void grant(KeyId key, WorkerId worker, const Harm& harm, Time now, std::vector<Grant>& out);
  void set_due(size_t key, bool due) {
    if (due || due_[key]) change_due(key, due);
  }
  void change_due(size_t key, bool due);
  bool any_due() const {
    for (const Type& type : types_) {
      if (!type.due.top().is_infinite()) return true;
    }
    return false;
  }
  void forget(KeyId key);
  void place(WorkerId worker);  // enters its state into available_
  Time decide_at(const Offer& o) const { return o.start_at - delay_(o.items); }

  Rules rules_;
  PoolView view_;
  DelayBound delay_;
  std::vector<uint64_t> epoch_;  // by key: what its next offer must have at least
  MinTree later_;  // by key: when an offer that does not want to start yet will be decided
  std::vector<uint8_t> due_;            // by key: whether its offer wants to start
  std::vector<Duration> due_run_;       // by key: how long that runs, if it does
  Duration backlog_;                    // the sum of these
  MinTree best_effort_;                 // by key: arrival of what has no deadline
  std::vector<size_t> too_long_;        // of these, who waits for others' sake
  Time look_again_ = Time::infinite();  // at them
  Time overdue_until_;                  // the last that had waited too long for that ran until then
  std::vector<Type> types_{1};
  // Keys whose offers are due, but wait for others' sake, or for a worker that may run them.
  std::vector<size_t> held_;
  std::vector<uint8_t> is_held_;   // by key: whether it is among these
  std::vector<KeyId> granted_to_;  // by worker
  // A moving average over grants, by worker time, see kGrantWeight.
  double at_any_time_ = 0, granted_ = 0;
  Load load_;
  Time load_until_;  // when it is due to be computed again
  struct Burst {
    bool known = false;
    Duration slack, wait;
  };
  std::vector<Burst> bursts_;  // by key: what load_ says of its slack
};

}  // namespace fermata::policy
