#include "policy/tree/members.h"

#include "base/check.h"
#include "estimate/posterior.h"
#include "policy/tree/service_tree.h"

namespace fermata::policy {
namespace {

// Gives a node that has just come a child for each of them, with all its items, due by `due`.
void add_members(Node& node, const std::vector<ServiceId>& members, Time due) {
  for (const ServiceId member : members) {
    Child& child = node.children.emplace_back();
    child.service = member;
    child.items = node.items;
    child.due = child.last = due;
  }
}

// Of the fastest of at least one: before that no answer can come. O(members).
Ahead fastest_ahead(const std::vector<ServiceId>& members, uint32_t items, Time now,
                    const ServiceTree& tree) {
  Ahead least{Duration(), Duration::infinite()};
  for (const ServiceId member : members) {
    const Ahead own = tree.ahead(member, items, now);
    if (own.total() < least.total()) least = own;
  }
  return least;
}

}  // namespace

OneOfChooser::OneOfChooser(VariantsInfo info, std::vector<ServiceId> members)
    : info_(std::move(info)), members_(std::move(members)) {
  FERMATA_CHECK(!members_.empty() && members_.size() == info_.variants.size());
}

void OneOfChooser::arrived(Node& node, Time now, ServiceTree& tree) {
  for (const VariantInfo& variant : info_.variants) node.worth.push_back(variant.accuracy);
  add_members(node, members_, node.deadline);
  ask_best(node, Ending::kRejected, now, tree);
}

void OneOfChooser::learned(Node& node, const Estimate& estimate, Time, ServiceTree&) {
  const auto* counts = std::get_if<Evidence>(&estimate);
  if (counts == nullptr) return;
  estimate::Belief belief;
  belief.set(std::span(info_.prior), std::span<const uint32_t>(*counts));
  for (size_t m = 0; m < members_.size(); ++m) {
    node.worth[m] = belief.accuracy(info_.variants[m].accuracy, info_.variants[m].recall);
  }
}

void OneOfChooser::ask_best(Node& node, Ending otherwise, Time now, ServiceTree& tree) {
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

void OneOfChooser::ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) {
  if (how == Ending::kAnswered) {
    return tree.end(node, Ending::kAnswered, node.children[child].made);
  }
  node.children[child].state = Child::kSkipped;
  ask_best(node, how, now, tree);
}

Ahead OneOfChooser::ahead(uint32_t items, Time now, const ServiceTree& tree) const {
  return fastest_ahead(members_, items, now, tree);
}

SomeOfChooser::SomeOfChooser(EnsembleInfo info, std::vector<ServiceId> members)
    : info_(std::move(info)), members_(std::move(members)) {
  FERMATA_CHECK(!members_.empty() && info_.utility.size() == info_.share.size());
  expected_ = mean_utility(info_.utility, info_.share);
  FERMATA_CHECK(expected_.size() == size_t{1} << members_.size());
}

void SomeOfChooser::arrived(Node& node, Time now, ServiceTree& tree) {
  node.worth = expected_;
  add_members(node, members_, info_.serve_all ? Time::infinite() : node.deadline);
  ask(node, Ending::kRejected, now, tree);
}

void SomeOfChooser::learned(Node& node, const Estimate& estimate, Time now, ServiceTree& tree) {
  const auto* difficulty = std::get_if<Difficulty>(&estimate);
  if (difficulty == nullptr || difficulty->bin >= info_.utility.size()) return;
  node.worth = info_.utility[difficulty->bin];
  ask(node, Ending::kRejected, now, tree);
}

// What runs, or has answered, stays; what was rejected or has failed is out.
plan::Subset SomeOfChooser::best(const Node& node, Time now, const ServiceTree& tree) const {
  plan::Subset asked = 0, out = 0;
  std::vector<Ahead> ahead;
  for (size_t m = 0; m < members_.size(); ++m) {
    const Child::State state = node.children[m].state;
    const plan::Subset bit = plan::Subset{1} << m;
    if (state == Child::kRunning || state == Child::kDone) asked |= bit;
    if (state == Child::kSkipped) out |= bit;
    ahead.push_back(tree.ahead(members_[m], node.items, now));
  }
  plan::Subset best = asked;
  Duration best_run;
  for (plan::Subset s = 1; s < expected_.size(); ++s) {
    if ((s & asked) != asked || (s & out) != 0) continue;
    Duration run;
    bool in_time = true;
    for (size_t m = 0; m < members_.size(); ++m) {
      if (((s & ~asked) >> m & 1) == 0) continue;
      run += ahead[m].run;
      in_time = in_time && (info_.serve_all || now + ahead[m].total() <= node.deadline);
    }
    const double gain = node.worth[s] - node.worth[best];
    if (!in_time || gain < 0 || (gain == 0 && run >= best_run && best != 0)) continue;
    best = s;
    best_run = run;
  }
  return best;
}

void SomeOfChooser::ask(Node& node, Ending otherwise, Time now, ServiceTree& tree) {
  const plan::Subset wanted = best(node, now, tree);
  uint32_t running = 0, answered = 0;
  for (uint32_t m = 0; m < members_.size(); ++m) {
    if ((wanted >> m & 1) != 0 && node.children[m].state == Child::kNotYet) {
      tree.start(node, m, now);
    }
    running += node.children[m].state == Child::kRunning ? 1 : 0;
    answered += node.children[m].state == Child::kDone ? 1 : 0;
  }
  if (running > 0) {
    if (answered > 0 && !info_.serve_all) tree.wake(node, node.deadline);
    return;
  }
  if (answered > 0) return tree.end(node, Ending::kAnswered, node.items);
  tree.end(node, otherwise, 0, ahead(node.items, now, tree));
}

// Some have answered.
void SomeOfChooser::woken(Node& node, Time, ServiceTree& tree) {
  tree.end(node, Ending::kAnswered, node.items);
}

void SomeOfChooser::ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) {
  if (how != Ending::kAnswered) node.children[child].state = Child::kSkipped;
  ask(node, how, now, tree);
}

Ahead SomeOfChooser::ahead(uint32_t items, Time now, const ServiceTree& tree) const {
  return fastest_ahead(members_, items, now, tree);
}

}  // namespace fermata::policy
