#include "policy/tree/service_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace fermata::policy {
namespace {

// Of the waits of a service's requests: one above moves the estimate by a small part of the
// difference, one below by a large one, so that some eighth of them lie below.
constexpr double kUp = 1.0 / 32, kDown = 1.0 / 4;
// While nobody comes it falls by a factor e in so long, or in so many of its own lengths: who is
// rejected for it must not keep it up.
constexpr double kMemorySeconds = 1, kMemoryWaits = 8;

double faded(double wait_s, Duration since) {
  return wait_s * portable_exp(-since.seconds() / std::max(kMemorySeconds, kMemoryWaits * wait_s));
}

void approach(double& estimate, double seen) {
  estimate += (seen - estimate) * (seen > estimate ? kUp : kDown);
}

}  // namespace

double ServiceTree::Known::pace_at(Time now) const {
  return fastest + (pace - fastest) * portable_exp(-(now - last_run).seconds() / kMemorySeconds);
}

void TreeDecisions::clear() {
  started.clear();
  withdrawn.clear();
  ended.clear();
}

ServiceId ServiceTree::new_service() {
  if (free_.empty()) {
    services_.emplace_back();
    return ServiceId(static_cast<uint32_t>(services_.size() - 1));
  }
  const ServiceId id = free_.back();
  free_.pop_back();
  services_[id.index()] = {};
  return id;
}

ServiceId ServiceTree::add_leaf(std::shared_ptr<const LatencyTable> latency) {
  const ServiceId id = new_service();
  services_[id.index()].latency = std::move(latency);
  return id;
}

ServiceId ServiceTree::add(std::unique_ptr<Chooser> chooser) {
  const ServiceId id = new_service();
  services_[id.index()].chooser = std::move(chooser);
  return id;
}

void ServiceTree::remove(ServiceId service) {
  services_[service.index()] = {};
  free_.push_back(service);
  ++changes_;
}

Ahead ServiceTree::ahead(ServiceId service, uint32_t items, Time now) const {
  const Known& own = known(service);
  if (own.chooser != nullptr) {
    // What several others contain is asked along every path.
    if (own.asked.change != changes_ || own.asked.now != now || own.asked.items != items) {
      own.asked = {changes_, now, items, own.chooser->ahead(items, now, *this)};
    }
    return own.asked.ahead;
  }
  const uint32_t together = std::clamp(items, 1u, own.latency->max_batch());
  return {Duration::from_seconds(faded(own.wait_s, now - own.last)),
          (*own.latency)(together).scaled(own.pace_at(now))};
}

void ServiceTree::arrived(JobId id, ServiceId service, uint32_t items, Time deadline, Time now,
                          bool begun) {
  auto node = std::make_unique<Node>(Node{id, service, now, deadline, items, {}});
  Node& own = *node;
  own.begun = begun;
  const bool is_new = nodes_.emplace(id, std::move(node)).second;
  FERMATA_CHECK(is_new);
  known(service).chooser->arrived(own, now, *this);
}

void ServiceTree::learned(JobId id, const Estimate& estimate, Time now) {
  const auto it = nodes_.find(id);
  if (it == nodes_.end()) return;
  Node& node = *it->second;
  known(node.service).chooser->learned(node, estimate, now, *this);
}

void ServiceTree::start(Node& node, uint32_t child, Time now) {
  Child& own = node.children[child];
  const bool again = !own.id.is_none();
  own.id = next_id_();
  own.state = Child::kRunning;
  own.started = now;
  children_[own.id] = {node.id, child};
  out_.started.push_back({own.id, node.id, child, own.service, own.option, own.items, own.due,
                          again, own.begun || node.begun});
}

void ServiceTree::planned(ServiceId service, std::vector<uint32_t> options) {
  services_[service.index()].chooser->planned(std::move(options));
  ++changes_;
}

void ServiceTree::ended(JobId id, Ending how, uint32_t made, Time now,
                        std::span<const uint32_t> skipped) {
  const auto place = children_.find(id);
  if (place == children_.end()) return;
  Node& node = *nodes_.at(place->second.node);
  const uint32_t at = place->second.child;
  children_.erase(place);
  Child& child = node.children[at];
  child.made = made;
  if (how == Ending::kAnswered) {
    child.state = Child::kDone;
    observe(child, now);
  } else {
    child.state = Child::kNotYet;
  }
  for (const uint32_t other : skipped) {
    if (node.children[other].state == Child::kNotYet) node.children[other].state = Child::kSkipped;
  }
  known(node.service).chooser->ended(node, at, how, now, *this);
}

void ServiceTree::ran(JobId id, uint32_t batch_items, Duration run, Time now) {
  const auto place = children_.find(id);
  if (place == children_.end()) return;
  const Child& child = nodes_.at(place->second.node)->children[place->second.child];
  Known& own = services_[child.service.index()];
  if (own.chooser != nullptr || run <= Duration()) return;
  const double ratio = run.seconds() / (*own.latency)(std::max(1u, batch_items)).seconds();
  own.fastest = std::min(own.fastest, ratio);
  if (!std::exchange(own.has_run, true)) own.pace = ratio;
  approach(own.pace, ratio);
  own.last_run = now;
  ++changes_;
}

void ServiceTree::observe(const Child& child, Time now) {
  Known& own = services_[child.service.index()];
  if (own.chooser != nullptr) return;  // its members know
  const double wait_s =
      std::max(0.0, (now - child.started - ahead(child.service, child.items, now).run).seconds());
  own.wait_s = faded(own.wait_s, now - own.last);
  approach(own.wait_s, wait_s);
  own.last = now;
  ++changes_;
}

void ServiceTree::withdraw_children(const Node& node) {
  for (const Child& child : node.children) {
    if (child.state != Child::kRunning) continue;
    children_.erase(child.id);
    out_.withdrawn.push_back(child.id);
  }
}

bool ServiceTree::withdrawn(JobId id) {
  const auto it = nodes_.find(id);
  if (it == nodes_.end()) return false;
  forget(*it->second);
  return true;
}

void ServiceTree::wake(Node& node, Time when) {
  if (when == node.wake) return;
  if (!node.wake.is_infinite()) wakes_.erase({node.wake, node.id});
  if (!when.is_infinite()) wakes_.insert({when, node.id});
  node.wake = when;
}

void ServiceTree::tick(Time now) {
  while (next_wake() <= now) {
    Node& node = *nodes_.at(wakes_.begin()->second);
    wake(node, Time::infinite());
    known(node.service).chooser->woken(node, now, *this);
  }
}

void ServiceTree::forget(Node& node) {
  withdraw_children(node);
  wake(node, Time::infinite());
  const JobId id = node.id;
  nodes_.erase(id);
}

void ServiceTree::end(Node& node, Ending how, uint32_t made, const Ahead& met) {
  const TreeDecisions::Ended ended{node.id, how, made, met, node.infeasible};
  forget(node);
  out_.ended.push_back(ended);
}

}  // namespace fermata::policy
