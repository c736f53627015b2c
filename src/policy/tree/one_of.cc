#include "policy/tree/one_of.h"

#include <algorithm>

#include "base/check.h"
#include "estimate/posterior.h"
#include "policy/tree/members.h"

namespace fermata::policy {

OneOfChooser::OneOfChooser(VariantsInfo info, std::vector<ServiceId> members)
    : info_(std::move(info)), members_(std::move(members)) {
  FERMATA_CHECK(!members_.empty() && members_.size() == info_.variants.size());
}

void OneOfChooser::arrived(Node& node, Time now, Branches& tree) {
  for (const VariantInfo& variant : info_.variants) node.worth.push_back(variant.accuracy);
  add_members(node, members_, node.deadline);
  ask_best(node, Ending::kRejected, now, tree);
}

void OneOfChooser::learned(Node& node, const Estimate& estimate, Time, Branches&) {
  const auto* counts = std::get_if<Evidence>(&estimate);
  if (counts == nullptr) return;
  estimate::Belief belief;
  belief.set(std::span(info_.prior), std::span<const uint32_t>(*counts));
  for (size_t m = 0; m < members_.size(); ++m) {
    node.worth[m] = belief.accuracy(info_.variants[m].accuracy, info_.variants[m].recall);
  }
}

void OneOfChooser::ask_best(Node& node, Ending otherwise, Time now, Branches& tree) {
  uint32_t best = 0;
  double most = 0;
  Ahead least{Duration(), Duration::infinite()};
  for (uint32_t m = 0; m < members_.size(); ++m) {
    if (node.children[m].state != Child::kNotYet) continue;
    const Ahead own = tree.ahead(members_[m], node.items, now);
    if (own.total() < least.total()) least = own;
    double worth = node.worth[m];
    if (!node.deadline.is_infinite()) {
      const Duration slo = node.deadline - node.arrival;
      worth *= 1 - info_.penalty(slo, now + own.total() - node.arrival);
    }
    if (worth <= most) continue;
    most = worth;
    best = m;
  }
  if (most > 0) return tree.start(node, best, now);
  tree.end(node, otherwise, 0, least.run.is_infinite() ? Ahead{} : least);
}

void OneOfChooser::ended(Node& node, uint32_t child, Ending how, Time now, Branches& tree) {
  if (how == Ending::kAnswered) {
    return tree.end(node, Ending::kAnswered, node.children[child].made);
  }
  node.children[child].state = Child::kSkipped;
  ask_best(node, how, now, tree);
}

Ahead OneOfChooser::ahead(uint32_t items, Time now, const Branches& tree) const {
  return fastest_ahead(members_, items, now, tree);
}

}  // namespace fermata::policy
