#include "policy/shared_batcher.h"

#include <algorithm>

#include "estimate/rate.h"
#include "policy/pool/account.h"

namespace fermata::policy {
namespace {

constexpr Duration kExpectEvery = estimate::RateMeter::kWindow;

}  // namespace

Answer SharedBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  const Time start = std::max(now + delay_(1), grant.free_at);
  granted_ = {grant.worker_type, start, grant.until,
              needed_by(pool_, offer_.key, grant.worker, now), next_free(pool_, grant.worker)};
  answer.started = decide(grant, start, now, out);
  if (answer.started) {
    answer.free_at = out.bound.back().finish;
    declined_.used();
  }
  update(now);
  return answer;
}

void SharedBatcher::renew(Time now, size_t items) {
  offer_.epoch = epoch_;
  offer_.types = declined_.types(now);
  offer_.start_at = std::max(now, declined_.from());
  offer_.items = static_cast<uint32_t>(items);
  offer_.best_effort = false;
  if (now >= expected_until_) {
    const double lost = offer_.outlook.lost;
    offer_.outlook = expected(now);
    offer_.outlook.lost = lost;
    expected_until_ = now + kExpectEvery;
  }
  set_waiting(0, Time::infinite(), Time::infinite());
}

void SharedBatcher::set_best_effort(Time arrival, Time now) {
  offer_.best_effort = true;
  offer_.start_at = now;
  offer_.urgency = arrival;
  if (now < declined_.from()) offer_.items = 0;
}

void SharedBatcher::set_waiting(size_t items, Time first_by, Time last_by) {
  offer_.outlook.waiting = static_cast<uint32_t>(items);
  offer_.outlook.first_by = first_by;
  offer_.outlook.last_by = last_by;
}

uint32_t SharedBatcher::fitting(const LatencyTable& latency, uint32_t items, Time finish) const {
  const Time without = finish - latency(items);
  const auto makes_late = [&](Time end) {
    return end <= granted_.needed_by ? 0
                                     : made_late(pool_, offer_.key, granted_.type, granted_.start,
                                                 std::min(end, granted_.next), 0);
  };
  for (; items > 1; --items) {
    const Time end = without + latency(items);
    if (end <= granted_.until && makes_late(end) <= kNegligible * items) break;
  }
  return items;
}

}  // namespace fermata::policy
