#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "estimate/posterior.h"
#include "estimate/rate.h"
#include "plan/variants/group_problem.h"
#include "policy/pool/service_demand.h"
#include "policy/pool/view.h"
#include "policy/variants/variants.h"

namespace fermata::policy {

// The waiting tasks of every service of a pool, and with its view one GroupProblem that
// planners read. Decides nothing. What concerns one task takes O(log waiting); what has been
// removed leaves nothing behind.
class VariantsQueue {
 public:
  explicit VariantsQueue(const PoolView& pool) : pool_(pool) {}

  struct Waiting {
    Task task;
    uint32_t service = 0;
    Evidence evidence;  // empty: not known (yet)
    // The accuracy that the last plan meant it to get; 1 before there was one.
    double planned = 1;
    Time moment = Time::infinite();  // see set_moment()
  };
  // The order in which tasks wait: by deadline, then by job.
  struct Place {
    Time deadline;
    JobId job;
    auto operator<=>(const Place&) const = default;
  };
  using Queue = std::map<Place, Waiting>;

  // The pool knows its variants' keys.
  void add_service(KeyId key, const VariantsInfo& info);
  void remove(KeyId key);
  // That of a variant. True where that changes the fastest() of any service.
  bool latency_changed(KeyId key);

  Waiting& insert(const Task& task, Time now);
  bool erase(const Task& task);
  Waiting* find(const Task& task);  // null: it does not wait (any more)
  // The task's place and entry with what its data says; null where it does not wait or
  // that says nothing of the service's classes.
  Waiting* learned(const Task& task, Evidence evidence);
  // What the variant is believed to be right with probability, on what is known of its data.
  double accuracy(const Waiting& waiting, uint32_t variant);
  const Queue& waiting() const { return waiting_; }
  // The first whose deadline has not passed at `now`, and those after it.
  Queue::const_iterator first_in_time(Time now) const {
    return waiting_.lower_bound({now, JobId(0)});
  }
  uint64_t waiting_items(KeyId key) const;
  size_t urgent() const { return urgent_; }  // of those that wait, with a deadline
  uint64_t waiting(uint32_t service) const { return services_[service].waiting; }

  // Each waiting task may have a moment at which something is due; they are found in order.
  void set_moment(Waiting& waiting, Time moment);
  Time first_moment() const;
  Waiting& first_due();  // of those with a moment

  // Up to `most` waiting tasks as requests, in their order: those whose deadlines come next,
  // and for up to a third of the places (more where the others do not fill theirs) those whose
  // deadlines passed last, which are worth more than what is late for longer. Valid until
  // the next call that changes anything; the caller sets what a policy needs besides.
  plan::GroupProblem& problem(Time now, size_t most);
  // The same for the next batch of one worker that is free at `start`, and no other as soon: it is
  // the first of at most `workers`. The next one of another type is the second, and the others are
  // evenly of those that come free soon and late. These have to do with their share, by what their
  // types do in a second, of what waits and of what is expected to come.
  // O(workers of the pool * their logarithm + most).
  void share(WorkerId worker, Time now, Time start, size_t workers, size_t most,
             plan::GroupProblem& problem);
  const std::vector<plan::GroupService>& services() const { return problem_.services; }
  // By request of the last problem; those that have gone since must not be asked for.
  Waiting& chosen(size_t request) { return *chosen_[request]; }

  KeyId variant_key(uint32_t service, uint32_t variant) const {
    return services_[service].keys[variant];
  }
  // Items that came a second, lately; none are left of a service where none came.
  double rate_rps(uint32_t service, Time now);
  // Of one item on any variant and type of worker.
  Duration fastest(uint32_t service) const { return services_[service].fastest; }
  // Of all services, with the variants that take least. O(services * variants).
  Outlook outlook(Time now) const;
  // accuracy() of every variant for some that have left lately, one after the other; of those
  // who have left, since each does once, however long some wait.
  std::span<const double> recent(uint32_t service) const { return services_[service].recent; }
  // The service's variants on this key, none for one that it does not have.
  std::optional<uint32_t> variant_of(uint32_t service, KeyId key) const;

 private:
  struct Service {
    KeyId key;
    std::vector<KeyId> keys;  // by variant
    estimate::RateMeter rate;
    ServiceDemand demand;
    Duration fastest;
    uint64_t waiting = 0, urgent = 0;  // the latter of these, with a deadline
    std::vector<double> recent;        // see recent(); of up to kRecent requests
    uint64_t gone = 0;                 // requests that wait no longer
  };
  struct Due {
    Time moment;
    Place place;
    auto operator<=>(const Due&) const = default;
  };

  static Place place_of(const Task& task) { return {task.deadline, task.job}; }
  void forget_service(uint32_t at);
  void add_pool(plan::GroupProblem& problem) const;
  void add_worker(WorkerId worker, plan::GroupProblem& problem) const;
  bool measure_fastest(uint32_t service);
  // Of one item on a worker of this type, in the mean of all variants.
  double seconds_on(uint32_t type) const;
  void sort_others(WorkerId worker, Time start);
  void erase(Queue::iterator it);
  void remember(const Waiting& waiting);
  void add_requests(plan::GroupProblem& problem, size_t most);
  void add_request(plan::GroupProblem& problem, Waiting& waiting);

  const PoolView& pool_;
  absl::flat_hash_map<KeyId, uint32_t> service_of_;
  std::vector<Service> services_;  // as problem_.services
  Queue waiting_;
  size_t urgent_ = 0;
  std::set<Due> due_;
  std::vector<Waiting*> chosen_;
  estimate::Belief belief_;
  plan::GroupProblem problem_;
  std::vector<uint32_t> others_;  // workers, of share()
  std::vector<double> seconds_;   // by type, of share()
};

}  // namespace fermata::policy
