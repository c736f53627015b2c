#include "policy/tree/one_of.h"

#include <algorithm>

#include "base/check.h"
#include "estimate/posterior.h"

namespace fermata::policy {

OneOfChooser::OneOfChooser(VariantsInfo info, std::vector<ServiceId> members)
    : info_(std::move(info)), members_(std::move(members)) {
  FERMATA_CHECK(!members_.empty() && members_.size() == info_.variants.size());
}

void OneOfChooser::arrived(Node& node, Time now, Branches& tree) {
  for (size_t m = 0; m < members_.size(); ++m) {
    node.worth.push_back(info_.variants[m].accuracy);
    Child& child = node.children.emplace_back();
    child.service = members_[m];
    child.items = node.items;
    child.due = child.last = node.deadline;
  }
  ask_best(node, Ending::kRejected, now, tree);
}

void OneOfChooser::learned(Node& node, const Estimate& estimate, Time, Branches&) {
  const auto* counts = std::get_if<Evidence>(&estimate);
  if (counts == nullptr || counts->size() != info_.prior.size()) return;
  std::vector<double> theta(counts->size());
  estimate::posterior_mean(info_.prior, std::vector<double>(counts->begin(), counts->end()), theta);
  for (size_t m = 0; m < members_.size(); ++m) {
    const auto& recall = info_.variants[m].recall;
    if (recall.size() == theta.size()) node.worth[m] = estimate::expected_accuracy(theta, recall);
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

// The least that there is.
Ahead OneOfChooser::ahead(uint32_t items, Time now, const Branches& tree) const {
  Ahead least = tree.ahead(members_[0], items, now);
  for (const ServiceId member : members_) {
    const Ahead own = tree.ahead(member, items, now);
    if (own.total() < least.total()) least = own;
  }
  return least;
}

}  // namespace fermata::policy
