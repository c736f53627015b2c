#pragma once

#include <vector>

#include "policy/ensemble/ensemble.h"
#include "policy/tree/chooser.h"
#include "policy/variants/variants.h"

namespace fermata::policy {

// Requests of one item that any one of several services may answer: what variants are where some
// are services (the others then wait among their own models' requests). The one that is worth most
// is asked: its accuracy, by the evidence where that has come, less the penalty of when it is
// expected to answer. Where it is rejected or fails the next one is, as long as it is worth
// anything.
class OneOfChooser final : public Chooser {
 public:
  // Members by variant of `info`, whose keys mean nothing.
  OneOfChooser(VariantsInfo info, std::vector<ServiceId> members);

  void arrived(Node& node, Time now, ServiceTree& tree) override;
  // Of a request that already runs nothing changes.
  void learned(Node& node, const Estimate& estimate, Time now, ServiceTree& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) override;
  Ahead ahead(uint32_t items, Time now, const ServiceTree& tree) const override;

 private:
  // Ends the node as `otherwise` where nobody is left.
  void ask_best(Node& node, Ending otherwise, Time now, ServiceTree& tree);

  const VariantsInfo info_;
  const std::vector<ServiceId> members_;
};

// Queries of one item that several services answer together, or some of them: what ensembles are
// where some members are services. Of the subsets that are expected to end by the deadline the one
// of highest utility is asked, of equals the one that runs least; more members are added where the
// difficulty says so, and others where some are rejected or fail. A query ends when all
// that were asked have ended, or at its deadline where it is not served late: answered, where any
// of them has answered.
class SomeOfChooser final : public Chooser {
 public:
  // Members by model of `info`, whose keys mean nothing.
  SomeOfChooser(EnsembleInfo info, std::vector<ServiceId> members);

  void arrived(Node& node, Time now, ServiceTree& tree) override;
  void learned(Node& node, const Estimate& estimate, Time now, ServiceTree& tree) override;
  void woken(Node& node, Time now, ServiceTree& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) override;
  Ahead ahead(uint32_t items, Time now, const ServiceTree& tree) const override;

 private:
  // Starts what the best subset has beyond what was asked; ends the node as `otherwise` where
  // nothing runs then.
  void ask(Node& node, Ending otherwise, Time now, ServiceTree& tree);
  plan::Subset best(const Node& node, Time now, const ServiceTree& tree) const;

  const EnsembleInfo info_;
  const std::vector<ServiceId> members_;
  std::vector<double> expected_;  // utility by Subset, over all bins
};

}  // namespace fermata::policy
