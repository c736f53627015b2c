#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "model/latency.h"
#include "policy/tree/chooser.h"
#include "policy/tree/node.h"

namespace fermata::policy {

// What the tree wants done. The driver acts on it in the order of the lists, and clears it.
struct TreeDecisions {
  // A request for a member: of a leaf, tasks for the scheduler; of a composite service, a node
  // that is to arrive().
  struct Started {
    JobId id, parent;
    uint32_t child = 0;  // its number among the parent's
    ServiceId service;
    uint32_t option = kAnyOption;
    uint32_t items = 1;
    Time due;
    bool again = false;  // the child was rejected before
    bool begun = false;  // as Task has it
  };
  // A node that is gone.
  struct Ended {
    JobId id;
    Ending how = Ending::kAnswered;
    uint32_t made = 0;
    Ahead met;                       // of one that was rejected
    uint32_t infeasible = kNoChild;  // before which child that was; none: one was rejected itself
  };
  std::vector<Started> started;
  std::vector<JobId> withdrawn;  // children that nobody waits for any more
  std::vector<Ended> ended;

  bool empty() const { return started.empty() && withdrawn.empty() && ended.empty(); }
  void clear();
};

// Services that are made of services. A request for one is a node whose children are requests for
// its members: leaves, which the scheduler knows by key, or composite services again. The tree
// says which children to start with which deadlines; the driver, which has the data, makes tasks
// of them and tells how they end. Pure, like the schedulers, and used by both drivers; requests
// for leaves never touch it.
//
// Every node that arrives ends once: in one Ended, or by withdrawn() returning true. Each event
// is O(members of the service) and the composite services below it.
class ServiceTree {
 public:
  // Ids of children, unique among all that the driver has.
  explicit ServiceTree(std::function<JobId()> next_id) : next_id_(std::move(next_id)) {}

  // How long requests for it run alone, by items: where several may answer, the fastest's.
  ServiceId add_leaf(std::shared_ptr<const LatencyTable> latency);
  ServiceId add(std::unique_ptr<Chooser> chooser);
  // Nothing of it may be under way; its id may come again.
  void remove(ServiceId service);

  // A request for a composite service; `id` as next_id would give it. `begun`, as Task has it, is
  // so of all that it leads to.
  void arrived(JobId id, ServiceId service, uint32_t items, Time deadline, Time now,
               bool begun = false);
  // What its data says; nothing where the node has ended.
  void learned(JobId node, const Estimate& estimate, Time now);
  // How long the batch in which a child was answered ran, before it ends: its service's requests
  // are expected to run as much longer or shorter than its latency says. For leaves.
  void ran(JobId child, uint32_t batch_items, Duration run, Time now);
  // A child has ended; nothing where nobody waits for it. `made`: how many items it turned into;
  // `skipped`: children of its parent that its answer says are not wanted.
  void ended(JobId child, Ending how, uint32_t made, Time now,
             std::span<const uint32_t> skipped = {});
  // Of a composite service, as Chooser says.
  void planned(ServiceId service, std::vector<uint32_t> options);
  // False where the node has ended.
  bool withdrawn(JobId node);
  // To be called at next_wake(), or as soon after as can be.
  void tick(Time now);
  Time next_wake() const { return wakes_.empty() ? Time::infinite() : wakes_.begin()->first; }
  bool has(JobId node) const { return nodes_.contains(node); }

  TreeDecisions& decisions() { return out_; }

  // For choosers. Of one request for a service now: what is known of its waits, and of its runs.
  Ahead ahead(ServiceId service, uint32_t items, Time now) const;
  // Starts node.children[child] as a request for its `service` with its `items`, `due` and `last`.
  void start(Node& node, uint32_t child, Time now);
  // Once, at `when`, the chooser is woken for the node; earlier ones are forgotten.
  void wake(Node& node, Time when);
  // Ends the node: what runs for it is withdrawn. `made`: how many items it turned into. Of one
  // that is rejected: what it would have met. The node is gone then.
  void end(Node& node, Ending how, uint32_t made, const Ahead& met = {});

 private:
  struct Known {
    std::shared_ptr<const LatencyTable> latency;  // of a leaf
    std::unique_ptr<Chooser> chooser;             // of a composite service
    // What requests for it waited beside their runs: a low quantile, since batches that grow
    // take the time that there is; it fades while none comes.
    double wait_s = 0;
    Time last;
    // Runs over what the latency says: a low quantile of them, and the least. While none comes
    // the estimate returns to the latter, or to 1: one bad moment must not reject all for ever.
    double pace = 1, fastest = 1;
    bool has_run = false;
    Time last_run;
    double pace_at(Time now) const;
    // Of a composite service: what its chooser last said, and how much had changed by then.
    struct Asked {
      uint64_t change = 0;
      Time now;
      uint32_t items = 0;
      Ahead ahead;
    };
    mutable Asked asked;
  };
  struct Place {
    JobId node;
    uint32_t child = 0;
  };
  const Known& known(ServiceId service) const { return services_[service.index()]; }
  ServiceId new_service();
  void observe(const Child& child, Time now);
  void withdraw_children(const Node& node);
  void forget(Node& node);

  const std::function<JobId()> next_id_;
  std::vector<Known> services_;
  std::vector<ServiceId> free_;
  uint64_t changes_ = 1;  // of what is known of any service
  absl::flat_hash_map<JobId, std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<JobId, Place> children_;  // that run
  absl::btree_set<std::pair<Time, JobId>> wakes_;
  TreeDecisions out_;
};

}  // namespace fermata::policy
