#include "policy/tree/members.h"

#include "base/check.h"
#include "estimate/posterior.h"
#include "policy/tree/service_tree.h"

namespace fermata::policy {

MembersChooser::MembersChooser(ServiceInfo info, std::vector<ServiceId> members)
    : info_(std::move(info)), members_(std::move(members)) {
  FERMATA_CHECK(!members_.empty());
  if (const auto* variants = std::get_if<VariantsInfo>(&info_)) {
    FERMATA_CHECK(members_.size() == variants->variants.size());
    for (size_t m = 0; m < members_.size(); ++m) {
      options_.push_back(plan::Subset{1} << m);
      expected_.push_back(variants->variants[m].accuracy);
    }
    return;
  }
  const EnsembleInfo& ensemble = std::get<EnsembleInfo>(info_);
  FERMATA_CHECK(ensemble.utility.size() == ensemble.share.size());
  serve_all_ = ensemble.serve_all;
  expected_ = mean_utility(ensemble.utility, ensemble.share);
  FERMATA_CHECK(expected_.size() == size_t{1} << members_.size());
  for (plan::Subset s = 0; s < expected_.size(); ++s) options_.push_back(s);
}

void MembersChooser::arrived(Node& node, Time now, ServiceTree& tree) {
  node.worth = expected_;
  for (const ServiceId member : members_) {
    Child& child = node.children.emplace_back();
    child.service = member;
    child.items = node.items;
    child.due = child.last = serve_all_ ? Time::infinite() : node.deadline;
  }
  ask(node, Ending::kRejected, now, tree);
}

void MembersChooser::learned(Node& node, const Estimate& estimate, Time now, ServiceTree& tree) {
  if (const auto* variants = std::get_if<VariantsInfo>(&info_)) {
    const auto* counts = std::get_if<Evidence>(&estimate);
    if (counts == nullptr) return;
    estimate::Belief belief;
    belief.set(std::span(variants->prior), std::span<const uint32_t>(*counts));
    for (size_t m = 0; m < members_.size(); ++m) {
      const VariantInfo& variant = variants->variants[m];
      node.worth[m] = belief.accuracy(variant.accuracy, variant.recall);
    }
  } else {
    const auto& utility = std::get<EnsembleInfo>(info_).utility;
    const auto* difficulty = std::get_if<Difficulty>(&estimate);
    if (difficulty == nullptr || difficulty->bin >= utility.size()) return;
    node.worth = utility[difficulty->bin];
  }
  ask(node, Ending::kRejected, now, tree);
}

double MembersChooser::worth(const Node& node, size_t option, Time finish) const {
  const double all = node.worth[option];
  const auto* variants = std::get_if<VariantsInfo>(&info_);
  if (variants == nullptr) return serve_all_ || finish <= node.deadline ? all : -1;
  const Duration slo = node.deadline - node.arrival;
  const double late = slo.is_infinite() ? 0 : variants->penalty(slo, finish - node.arrival);
  const double left = all * (1 - late);
  return left > 0 ? left : -1;
}

// What runs, or has answered, stays; what was rejected or has failed is out.
plan::Subset MembersChooser::best(const Node& node, Time now, const ServiceTree& tree) const {
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
  double most = -1;
  Duration least = Duration::infinite();
  for (size_t option = 0; option < options_.size(); ++option) {
    const plan::Subset s = options_[option];
    if (s == 0 || (s & asked) != asked || (s & out) != 0) continue;
    Duration run;
    Time finish = now;
    for (size_t m = 0; m < members_.size(); ++m) {
      if (((s & ~asked) >> m & 1) == 0) continue;
      run += ahead[m].run;
      finish = std::max(finish, now + ahead[m].total());
    }
    const double own = worth(node, option, finish);
    if (own < 0 || own < most || (own == most && run >= least)) continue;
    best = s;
    most = own;
    least = run;
  }
  return best;
}

void MembersChooser::ask(Node& node, Ending otherwise, Time now, ServiceTree& tree) {
  const plan::Subset wanted = best(node, now, tree);
  const bool together = std::holds_alternative<EnsembleInfo>(info_);
  uint32_t running = 0, made = 0;
  bool answered = false;
  for (uint32_t m = 0; m < members_.size(); ++m) {
    Child& child = node.children[m];
    if ((wanted >> m & 1) != 0 && child.state == Child::kNotYet) tree.start(node, m, now);
    running += child.state == Child::kRunning ? 1 : 0;
    if (child.state != Child::kDone) continue;
    answered = true;
    made = together ? node.items : child.made;
  }
  if (running == 0 && answered) return tree.end(node, Ending::kAnswered, made);
  if (running == 0) return tree.end(node, otherwise, 0, ahead(node.items, now, tree));
  if (answered && !serve_all_) tree.wake(node, node.deadline);
}

// Some have answered.
void MembersChooser::woken(Node& node, Time, ServiceTree& tree) {
  tree.end(node, Ending::kAnswered, node.items);
}

void MembersChooser::ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) {
  if (how != Ending::kAnswered) node.children[child].state = Child::kSkipped;
  ask(node, how, now, tree);
}

// Of the fastest: before that no answer can come.
Ahead MembersChooser::ahead(uint32_t items, Time now, const ServiceTree& tree) const {
  Ahead least{Duration(), Duration::infinite()};
  for (const ServiceId member : members_) {
    const Ahead own = tree.ahead(member, items, now);
    if (own.total() < least.total()) least = own;
  }
  return least;
}

}  // namespace fermata::policy
