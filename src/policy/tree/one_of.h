#pragma once

#include <vector>

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

  void arrived(Node& node, Time now, Branches& tree) override;
  // Of a request that already runs nothing changes.
  void learned(Node& node, const Estimate& estimate, Time now, Branches& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, Branches& tree) override;
  Ahead ahead(uint32_t items, Time now, const Branches& tree) const override;

 private:
  // Ends the node as `otherwise` where nobody is left.
  void ask_best(Node& node, Ending otherwise, Time now, Branches& tree);

  const VariantsInfo info_;
  const std::vector<ServiceId> members_;
};

}  // namespace fermata::policy
