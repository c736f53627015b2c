#pragma once

#include <cstdint>
#include <vector>

#include "policy/service.h"
#include "policy/tree/node.h"

namespace fermata::policy {

class ServiceTree;  // policy/tree/service_tree.h, which calls choosers and carries out what they
                    // want

// What runs for a request of one kind of composite service whose members are services. Told of
// every event, it starts children, each with its own due time, and ends the node, once. Pure; holds
// no state of nodes but what is in them.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual void arrived(Node& node, Time now, ServiceTree& tree) = 0;
  // What the data of a request says; it may have begun to run.
  virtual void learned(Node& /*node*/, const Estimate&, Time /*now*/, ServiceTree& /*tree*/) {}
  // The child has ended; answered: with `made` items.
  virtual void ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) = 0;
  // A slower loop plans which option each child is to take, by child, for those that start from now
  // on; kAnyOption: it is left open.
  virtual void planned(std::vector<uint32_t> /*options*/) {}
  // The time has come that it asked for.
  virtual void woken(Node& /*node*/, Time /*now*/, ServiceTree& /*tree*/) {}
  virtual Ahead ahead(uint32_t items, Time now, const ServiceTree& tree) const = 0;
};

}  // namespace fermata::policy
