#pragma once

#include <cstdint>
#include <vector>

#include "policy/service.h"
#include "policy/tree/node.h"

namespace fermata::policy {

// What a chooser may ask and order; the ServiceTree.
class Branches {
 public:
  virtual ~Branches() = default;
  // Of one request for a service now: what is known of its waits, and of its runs.
  virtual Ahead ahead(ServiceId service, uint32_t items, Time now) const = 0;
  // Starts node.children[child] as a request for its `service` with its `items`, `due` and `last`.
  virtual void start(Node& node, uint32_t child, Time now) = 0;
  // Once, at `when`, the chooser is woken for the node; earlier ones are forgotten.
  virtual void wake(Node& node, Time when) = 0;
  // Ends the node: what runs for it is withdrawn. `made`: how many items it turned into. Of one
  // that is rejected: what it would have met. The node is gone then.
  virtual void end(Node& node, Ending how, uint32_t made, const Ahead& met = {}) = 0;
};

// What runs for a request of one kind of composite service whose members are services. Told of
// every event, it starts children, each with its own due time, and ends the node, once. Pure; holds
// no state of nodes but what is in them.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual void arrived(Node& node, Time now, Branches& tree) = 0;
  // What the data of a request says; it may have begun to run.
  virtual void learned(Node& /*node*/, const Estimate&, Time /*now*/, Branches& /*tree*/) {}
  // The child has ended; answered: with `made` items.
  virtual void ended(Node& node, uint32_t child, Ending how, Time now, Branches& tree) = 0;
  // A slower loop plans which option each child is to take, by child, for those that start from now
  // on; kAnyOption: it is left open.
  virtual void planned(std::vector<uint32_t> /*options*/) {}
  // The time has come that it asked for.
  virtual void woken(Node& /*node*/, Time /*now*/, Branches& /*tree*/) {}
  virtual Ahead ahead(uint32_t items, Time now, const Branches& tree) const = 0;
};

}  // namespace fermata::policy
