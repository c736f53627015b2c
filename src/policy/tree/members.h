#pragma once

#include <vector>

#include "policy/service.h"
#include "policy/tree/chooser.h"

namespace fermata::policy {

// Requests of one item that one of several services answers, or some of them together: what
// variants and ensembles are where some members are services (the others then wait among their own
// models' requests). An option is a subset of the members, of variants a single one. The option
// that is worth most is asked, of equals the one that runs least, and where members reject or fail
// the next best one. A variant is worth its accuracy, by the evidence where that has come, less the
// penalty of when it is expected to answer; a subset its utility, by the difficulty where that has
// come, if it is expected to end by the deadline. More members are asked where what comes later
// says so. It ends when all that were asked have ended, or at its deadline where it is not served
// late: answered, where any of them has answered.
class MembersChooser final : public Chooser {
 public:
  // Members by variant, or by model, of `info`, whose keys mean nothing.
  MembersChooser(ServiceInfo info, std::vector<ServiceId> members);

  void arrived(Node& node, Time now, ServiceTree& tree) override;
  void learned(Node& node, const Estimate& estimate, Time now, ServiceTree& tree) override;
  void woken(Node& node, Time now, ServiceTree& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) override;
  Ahead ahead(uint32_t items, Time now, const ServiceTree& tree) const override;

 private:
  // Starts what the best option has beyond what was asked; ends the node as `otherwise` where
  // nothing runs then.
  void ask(Node& node, Ending otherwise, Time now, ServiceTree& tree);
  plan::Subset best(const Node& node, Time now, const ServiceTree& tree) const;
  // Where it is expected to end then; negative: it is not to be asked.
  double worth(const Node& node, size_t option, Time finish) const;

  const ServiceInfo info_;
  const std::vector<ServiceId> members_;
  bool serve_all_ = false;
  std::vector<plan::Subset> options_;
  std::vector<double> expected_;  // by option, of a request of which nothing is known
};

}  // namespace fermata::policy
