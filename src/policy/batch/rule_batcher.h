#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "estimate/growth.h"
#include "estimate/rate.h"
#include "estimate/variation.h"
#include "policy/batch/batch_times.h"
#include "policy/batch/task_queue.h"
#include "policy/batch/window.h"
#include "policy/batcher.h"
#include "policy/rules.h"

namespace fermata::policy {

// The batcher of a single model under any policy of policy_rows(): the queue by deadline, the tasks
// without one, refusal in time, and binding (rule_batcher_queue.cc); how the queue is cut and when
// the resulting batch wants to start is as its rules say (rule_batcher.cc). What it measures
// (rate, growth, losses, sizes, and what grants tell of the pool) it measures under all rules, so
// that they may change while requests wait.
// On workers of several types a batch counts as long as on the slowest type on which its head can
// still end in time; where a head is too late for some, what waits behind it is offered to these at
// once. A task is refused when it cannot end on any type; none is given up for the batch of a type
// while another can still save it.
class RuleBatcher final : public Batcher {
 public:
  RuleBatcher(const Rules& rules, KeyId key, KeyInfo info, DelayBound delay);

  void nominated(const Task& task, Time now) override;
  bool withdrawn(const Task& task) override;
  Answer granted(const Grant& grant, Time now, Decisions& out) override;
  void join(Batch& batch, uint32_t type, Time limit, Time now, Decisions& out) override;
  void tick(Time now, Decisions& out) override { update(now, out); }
  void set_latency(LatencyByType latency, Time now, Decisions& out) override;
  void set_delay_bound(DelayBound bound) override;
  void set_rules(const Rules& rules, Time now, Decisions& out) override;

  const Offer& offer() const override { return offer_; }
  Time next_wake() const override { return wake_; }
  uint64_t waiting_items() const override {
    return queue_.items_from(0) + best_effort_.items_from(0);
  }

 private:
  bool alike() const { return alike_; }
  const BatchTimes& times_on(uint32_t type) const { return by_type_[alike() ? 0 : type]; }
  // While the queue is cut for a worker its own; else those of the slowest that may run the batch.
  const BatchTimes& times() const { return *times_; }
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

  // By its rules. The queue is not empty, and each of its tasks could still end in time alone; the
  // cut takes something unless it drops everything.
  Cut cut(const Moment& m) const;
  // Fills start_at, its rule and urgency of the offer, whose head has the earliest deadline.
  void schedule(const Task& head, Time now);
  void retime();    // times() have changed
  void retarget();  // λ has, or times() have
  void learn(const Grant& grant);
  // How many of the `take` tasks from `first` on run, at least one.
  size_t cap(size_t first, size_t take) const;
  void ran(uint32_t items);  // a batch of so many was bound
  void refused();            // a task was
  inline uint32_t least_in_way() const;
  inline size_t hurried(size_t first, size_t take) const;
  inline double late(Duration run) const;
  double efficiency(uint32_t b) const { return b / times().run(b).seconds(); }
  // How far the rejections are from what switches early starts off: 1 at that.
  double losing() const { return rules_.overload > 0 ? std::min(1.0, loss_ / rules_.overload) : 0; }
  double calm() const {
    return rules_.overload > 0 ? std::max(0.0, 1 - loss_ / rules_.overload) : 1;
  }
  inline double sparse() const;
  inline void tell();
  inline void follow_plan(const Task& head, Time latest);
  // Tasks a second, as large as those that wait.
  double tasks_rate() const {
    const size_t tasks = queue_.size();
    const uint64_t items = queue_.items_from(0);
    if (tasks == items) [[likely]]
      return rate_.per_second();
    return rate_.per_second() * static_cast<double>(tasks) / static_cast<double>(items);
  }
  inline Time start(Time came, Time latest, Time now);
  inline Time hold(Time came, Time latest, Time now);
  inline Duration margin(Duration longest) const;
  inline uint32_t size_to_save() const;
  inline void find_early();

  static constexpr double kNobodyComes = 1e9;  // seconds

  Rules rules_;
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
  // The typical relative deadline: the service's, else what tasks lately had.
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

  uint32_t target_ = 1, nearly_target_ = 1;
  double capacity_ = 0;  // items a second in batches of the target size
  double enough_ = 0;    // items that come in the time of a batch's fixed cost
  struct Early {
    double worth_waiting_for = 0;  // so many more items make a difference
    Duration margin, longest_hold;
  };
  std::vector<Early> early_;     // by batch size
  double gap_s_ = kNobodyComes;  // 1/λ
  uint32_t least_in_way_ = 1;
  estimate::QueueGrowth growth_;
  double recent_batch_ = 1;
  double loss_ = 0;    // share of the recent requests that were refused
  double calm_ = 1;    // see calm()
  double load_ = 0;    // see Outlook
  double single_ = 1;  // efficiency of one item, by that of the target
  double cheap_ = 1;   // how far the own fixed cost lets batches start early
  double sparse_ = 1;  // how far the pool's load lets them
  // What the last grant said.
  Harm harm_;
  Duration others_slack_ = Duration::infinite();
  Time free_at_;
  double pool_load_ = 0, alone_load_ = std::numeric_limits<double>::infinity();
  Duration burst_;
  double others_share_ = 0;
};

}  // namespace fermata::policy
