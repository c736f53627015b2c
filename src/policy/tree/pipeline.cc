#include "policy/tree/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "policy/tree/service_tree.h"

namespace fermata::policy {
namespace {

const Ahead& longer(const Ahead& a, const Ahead& b) { return a.total() < b.total() ? b : a; }

Ahead sum(const Ahead& a, const Ahead& b) { return {a.wait + b.wait, a.run + b.run}; }

// Until when a stage is to end that has `left` for itself and what stands behind it.
Duration share_of(Duration left, Duration run, const Ahead& behind) {
  const Duration runs = run + behind.run;
  const Duration slack = left - runs;
  if (slack <= Duration() || runs <= Duration()) return run;
  return run + slack.scaled(run.seconds() / runs.seconds());
}

}  // namespace

PipelineChooser::PipelineChooser(std::vector<StageInfo> stages)
    : stages_(std::move(stages)), is_last_(stages_.size(), true) {
  FERMATA_CHECK(!stages_.empty());
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (const uint32_t before : stages_[s].after) {
      FERMATA_CHECK(before < s);
      is_last_[before] = false;
    }
  }
}

uint32_t PipelineChooser::planned_option(uint32_t stage) const {
  return plan_.empty() ? kAnyOption : plan_[stage];
}

ServiceId PipelineChooser::service(uint32_t stage, uint32_t option) const {
  return option == kAnyOption ? stages_[stage].service : stages_[stage].options[option];
}

void PipelineChooser::planned(std::vector<uint32_t> options) {
  FERMATA_CHECK(options.empty() || options.size() == stages_.size());
  for (size_t s = 0; s < options.size(); ++s) {
    FERMATA_CHECK(options[s] == kAnyOption || options[s] < stages_[s].options.size());
  }
  plans_ += options != plan_;
  plan_ = std::move(options);
}

std::vector<uint32_t> PipelineChooser::items_by_stage(const Node& node) const {
  std::vector<uint32_t> items(stages_.size()), made(stages_.size());
  std::vector<bool> skipped(stages_.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Child& child = node.children[s];
    items[s] = stages_[s].after.empty() ? node.items : 0;
    skipped[s] = child.state == Child::kSkipped;
    for (const uint32_t before : stages_[s].after) {
      items[s] = std::max(items[s], made[before]);
      skipped[s] = skipped[s] || skipped[before];
    }
    if (skipped[s]) items[s] = 0;
    made[s] = child.state == Child::kDone ? child.made : items[s];
  }
  return items;
}

std::vector<Ahead> PipelineChooser::behind(const std::vector<uint32_t>& items, bool by_plan,
                                           Time now, const ServiceTree& tree) const {
  std::vector<Ahead> behind(stages_.size());
  for (uint32_t s = static_cast<uint32_t>(stages_.size()); s-- > 0;) {
    if (stages_[s].after.empty()) continue;
    const bool planned = by_plan || stages_[s].dedicated;
    const ServiceId own = service(s, planned ? planned_option(s) : kAnyOption);
    const Ahead here = items[s] == 0 ? Ahead{} : tree.ahead(own, items[s], now);
    const Ahead from_here = sum(here, behind[s]);
    for (const uint32_t before : stages_[s].after) {
      behind[before] = longer(behind[before], from_here);
    }
  }
  return behind;
}

Ahead PipelineChooser::ahead(uint32_t items, Time now, const ServiceTree& tree) const {
  const std::vector<uint32_t> all(stages_.size(), items);
  const std::vector<Ahead> after = behind(all, false, now, tree);
  Ahead longest;
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (!stages_[s].after.empty()) continue;
    longest = longer(longest, sum(tree.ahead(stages_[s].service, items, now), after[s]));
  }
  return longest;
}

void PipelineChooser::arrived(Node& node, Time now, ServiceTree& tree) {
  node.children.resize(stages_.size());
  start_ready(node, now, tree);
}

// Of a stage where one has to answer all items: the one that runs longest of those that are
// expected to end in time, or the one that ends first.
void PipelineChooser::leave_open(Child& child, uint32_t stage, Duration within, Time now,
                                 const ServiceTree& tree) const {
  const StageInfo& own = stages_[stage];
  child.option = kAnyOption;
  if (own.uniform && child.items > 1) {
    Ahead best;
    for (uint32_t o = 0; o < own.options.size(); ++o) {
      const Ahead ahead = tree.ahead(own.options[o], child.items, now);
      const bool in_time = ahead.total() <= within, best_in_time = best.total() <= within;
      const bool better = in_time ? !best_in_time || ahead.run > best.run
                                  : !best_in_time && ahead.total() < best.total();
      if (child.option != kAnyOption && !better) continue;
      child.option = o;
      best = ahead;
    }
  }
  child.service = service(stage, child.option);
}

bool PipelineChooser::start(Node& node, uint32_t stage, const Ahead& least, const Ahead& expected,
                            Time now, ServiceTree& tree) {
  Child& child = node.children[stage];
  child.option = planned_option(stage);
  child.plan = plans_;
  child.service = service(stage, child.option);
  child.due = child.last = Time::infinite();
  child.begun = !stages_[stage].after.empty();
  if (!node.deadline.is_infinite()) {
    Ahead own = tree.ahead(child.service, child.items, now);
    const bool is_late = !stages_[stage].dedicated && now + sum(own, least).total() > node.deadline;
    if (child.option == kAnyOption || is_late) {
      const Duration share = share_of(node.deadline - now, own.run, expected);
      leave_open(child, stage, share, now, tree);
      own = tree.ahead(child.service, child.items, now);
    }
    child.last = node.deadline - least.total();
    if (now + own.run > child.last) {
      node.infeasible = stage;
      tree.end(node, Ending::kRejected, 0, sum({Duration(), own.run}, least));
      return false;
    }
    child.due = std::min(child.last, now + share_of(node.deadline - now, own.run, expected));
  } else if (child.option == kAnyOption) {
    leave_open(child, stage, Duration::infinite(), now, tree);
  }
  tree.start(node, stage, now);
  return true;
}

uint32_t PipelineChooser::items_for(const Node& node, uint32_t stage) const {
  const auto& before = stages_[stage].after;
  uint32_t items = before.empty() ? node.items : 0;
  for (const uint32_t b : before) items = std::max(items, node.children[b].made);
  return items;
}

void PipelineChooser::start_ready(Node& node, Time now, ServiceTree& tree) {
  std::vector<Ahead> least, by_plan;  // of a request that has a deadline
  if (!node.deadline.is_infinite()) {
    const std::vector<uint32_t> items = items_by_stage(node);
    least = behind(items, false, now, tree);
    if (!plan_.empty()) by_plan = behind(items, true, now, tree);
  }
  const auto at = [](const std::vector<Ahead>& each, uint32_t s) {
    return each.empty() ? Ahead() : each[s];
  };
  uint32_t made = 0;
  bool running = false;
  for (uint32_t s = 0; s < stages_.size(); ++s) {
    Child& child = node.children[s];
    const auto is = [&](Child::State state) {
      return [&node, state](uint32_t b) { return node.children[b].state == state; };
    };
    if (child.state == Child::kNotYet && absl::c_any_of(stages_[s].after, is(Child::kSkipped))) {
      child.state = Child::kSkipped;
    } else if (child.state == Child::kNotYet &&
               absl::c_all_of(stages_[s].after, is(Child::kDone))) {
      child.items = items_for(node, s);
      if (child.items == 0) {
        child.state = Child::kSkipped;
      } else if (!start(node, s, at(least, s), at(by_plan.empty() ? least : by_plan, s), now,
                        tree)) {
        return;
      }
    }
    if (child.state == Child::kSkipped) child.made = items_for(node, s);
    running = running || child.state == Child::kRunning;
    if (is_last_[s]) made = std::max(made, child.made);
  }
  if (!running) tree.end(node, Ending::kAnswered, made);
}

void PipelineChooser::ended(Node& node, uint32_t stage, Ending how, Time now, ServiceTree& tree) {
  if (how == Ending::kAnswered) return start_ready(node, now, tree);
  Child& child = node.children[stage];
  const bool was_planned = child.option != kAnyOption && !std::exchange(child.again, true);
  const bool dedicated = stages_[stage].dedicated;
  const bool moved = std::exchange(child.plan, plans_) != plans_ && how != Ending::kRejected;
  const bool has_time = how == Ending::kRejected && child.due < child.last;
  if (!dedicated) {
    leave_open(child, stage, child.last - now, now, tree);
  } else if (moved) {
    child.option = planned_option(stage);
    child.service = service(stage, child.option);
  }
  const Ahead own = tree.ahead(child.service, child.items, now);
  if (((dedicated ? moved : was_planned) || has_time) && now + own.run <= child.last) {
    child.due = child.last;
    return tree.start(node, stage, now);
  }
  tree.end(node, how, 0, sum(own, behind(items_by_stage(node), false, now, tree)[stage]));
}

}  // namespace fermata::policy
