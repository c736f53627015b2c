#include "policy/pool/service_demand.h"

#include <algorithm>

#include "policy/pool/account.h"

namespace fermata::policy {

void ServiceDemand::count(const Task& task, Time now) {
  if (task.deadline.is_infinite()) return;
  (void)rate_.count(now, task.items);
  seen_ = now;
  const Duration own = task.deadline - task.arrival;
  slo_ = slo_.is_infinite() ? own : slo_ + (own - slo_) / 16;
  variation_.count(now, task.items, slo_);
}

double ServiceDemand::rate_rps(Time now) const {
  const Outlook outlook{.rate = rate_.per_second(), .seen = seen_};
  return has_come_lately(outlook, now) ? outlook.rate : 0;
}

Outlook ServiceDemand::outlook(Duration alone, Duration share) const {
  if (slo_.is_infinite() || slo_ < alone) return {};  // nothing could save them
  Outlook outlook;
  outlook.rate = rate_.per_second();
  outlook.seen = seen_;
  outlook.variation = variation_.value();
  outlook.alone = alone;
  outlook.load = outlook.rate * share.seconds();
  outlook.slack = std::max(slo_ - alone, Duration());
  return outlook;
}

Duration share_of_batch(const LatencyTable& latency, Duration slo) {
  const uint32_t items = std::max(1u, latency.largest_within(slo / 2));
  return latency(items) / items;
}

Outlook merged(std::span<const Outlook> services, Time now) {
  const auto counts = [&](const Outlook& one) {
    return !one.slack.is_infinite() && has_come_lately(one, now);
  };
  Outlook all;
  for (const Outlook& one : services) {
    if (counts(one)) all.slack = std::min(all.slack, one.slack);
  }
  double wait = 0;
  for (const Outlook& one : services) {
    if (!counts(one)) continue;
    all.rate += one.rate;
    all.alone += (one.alone - all.alone).scaled(all.rate > 0 ? one.rate / all.rate : 1);
    all.seen = std::max(all.seen, one.seen);
    all.load += one.load;
    if (all.load > 0) all.variation += (one.variation - all.variation) * one.load / all.load;
    if (one.slack <= all.slack * 2) continue;
    all.loose_rate += one.rate;
    wait += one.rate * one.slack.seconds();
  }
  if (all.loose_rate > 0) all.loose_slack = Duration::from_seconds(wait / all.loose_rate);
  return all;
}

}  // namespace fermata::policy
