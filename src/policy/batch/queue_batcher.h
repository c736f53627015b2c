#pragma once

#include "estimate/rate.h"
#include "estimate/variation.h"
#include "policy/batch/batch_times.h"
#include "policy/batch/task_queue.h"
#include "policy/batcher.h"

namespace fermata::policy {

// What to do with the queue at some moment: refuse its first `drop` tasks, run
// the `take` after them as one batch.
struct Cut {
  size_t drop = 0, take = 0;
};

// What the batchers of all policies share: the queue by deadline, the tasks
// without one, refusal in time, and binding. A policy says how to cut the queue
// and when the resulting batch wants to start.
// On workers of several types a batch counts as long as on the slowest type on which its head can
// still end in time; where a head is too late for some, what waits behind it is offered to these at
// once. A task is refused when it cannot end on any type; none is given up for the batch of a type
// while another can still save it.
class QueueBatcher : public Batcher {
 public:
  QueueBatcher(KeyId key, KeyInfo info, DelayBound delay);

  void nominated(const Task& task, Time now) final;
  bool withdrawn(const Task& task) final;
  Answer granted(const Grant& grant, Time now, Decisions& out) final;
  void join(Batch& batch, uint32_t type, Time limit, Time now, Decisions& out) final;
  void tick(Time now, Decisions& out) final { update(now, out); }
  void set_latency(LatencyByType latency, Time now, Decisions& out) final;
  void set_delay_bound(DelayBound bound) final;

  const Offer& offer() const final { return offer_; }
  Time next_wake() const final { return wake_; }
  uint64_t waiting_items() const final { return queue_.items_from(0) + best_effort_.items_from(0); }

 protected:
  // The queue is not empty, and each of its tasks could still end in time alone.
  // The cut must take something unless it drops everything.
  virtual Cut cut(const Moment& m) = 0;
  // Fills start_at, its rule and urgency of an offer of `items` items, of which `head` has the
  // earliest deadline.
  virtual void schedule(const Task& head, Time now, Offer& offer) = 0;
  virtual void retime() {}    // times() have changed
  virtual void retarget() {}  // λ has, or times() have
  virtual void learned(const Grant&) {}
  // How many of the `take` tasks from `first` on run, at least one.
  virtual size_t cap(size_t /*first*/, size_t take) { return take; }
  // A batch of so many items was bound; a task was refused.
  virtual void ran(uint32_t) {}
  virtual void refused() {}
  // So many tasks with a deadline wait from now on.
  virtual void holds(size_t /*waiting*/, Time /*now*/) {}

  const TaskQueue& queue() const { return queue_; }
  Outlook& outlook() { return offer_.outlook; }
  // While the queue is cut for a worker its own; else those of the slowest that may run the batch.
  const BatchTimes& times() const { return *times_; }
  const estimate::RateMeter& rate() const { return rate_; }
  // The typical relative deadline: the service's, else what tasks lately had.
  Duration budget() const { return budget_; }

 private:
  bool alike() const { return alike_; }
  const BatchTimes& times_on(uint32_t type) const { return by_type_[alike() ? 0 : type]; }
  // The types on which the task alone ends in time if it is decided on now.
  uint32_t types_for(const Task& task, Time now) const;
  void count_with(uint32_t types);
  size_t first_in_time(const BatchTimes& times, const Moment& m) const;
  void take_for(uint32_t type, const Moment& m, size_t& first, size_t& take, Decisions& out);
  inline Duration slack(Time now) const;  // see Outlook
  void update(Time now, Decisions& out);
  void refuse_infeasible(Time now, Decisions& out);
  inline void refuse_first(size_t n, Decisions& out);
  void remember_larger(const Task& task);
  void find_larger();
  void refuse(const Task& task, Decisions& out);
  inline void offer_urgent(const Cut& c, Time now);
  inline void expect(Time now);
  void offer_best_effort(Time now);
  void fill(size_t first, size_t take, const BatchTimes& times, const Moment& m, Time until,
            Batch& batch);
  Time latest_alone(const Task& task) const {
    if (alike() && task.items == 1) [[likely]]
      return task.deadline - alone_;
    return latest_on_any_type(task);
  }
  Time latest_on_any_type(const Task& task) const;
  inline void expect_more_like(const Task& task, Time now);

  const KeyId key_;
  KeyInfo info_;
  DelayBound delay_;
  std::vector<BatchTimes> by_type_;  // or one for all
  bool alike_ = true;                // one for all
  BatchTimes slowest_, counted_;     // on all types, and on those in counted_types_
  Duration fastest_, alone_;         // of one item, on any type; decided on and run, on the slowest
  uint32_t counted_types_ = kAnyType;
  const BatchTimes* times_ = &counted_;
  estimate::RateMeter rate_;
  estimate::CountVariation variation_;  // within the budget
  Duration budget_;
  Time last_urgent_ = Time::infinite();  // when one with a deadline came last; never

  TaskQueue queue_;        // with a deadline
  TaskQueue best_effort_;  // without
  // Tasks of more than one item by their last moment alone, which is in no order in the queue; a
  // heap, the first at its front. Some have left the queue; as many as wait at most, or few.
  struct Larger {
    Time latest;
    Task task;
    bool operator>(const Larger& other) const { return latest > other.latest; }
  };
  std::vector<Larger> larger_;
  // No waiting task's last moment alone is before this; exact for the head.
  Time refuse_after_ = Time::infinite();
  Offer offer_;
  uint64_t epoch_ = 0;
  Time wants_from_ = Time::infinite();  // as Batch::wanted; infinite: nothing waits
  Time wake_ = Time::infinite();
};

}  // namespace fermata::policy
