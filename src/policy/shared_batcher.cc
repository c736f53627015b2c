#include "policy/shared_batcher.h"

#include <algorithm>

#include "policy/pool/account.h"

namespace fermata::policy {
namespace {

constexpr Duration kExpectEvery = Duration::millis(50);  // as often as rates change

}  // namespace

Answer SharedBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  limit_ = std::min(grant.until, needed_by(pool_, offer_.key, grant.worker, now));
  answer.started = decide(grant, std::max(now + delay_(1), grant.free_at), now, out);
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
  offer_.patient = false;
  if (now >= expected_until_) {
    const double lost = offer_.outlook.lost;
    offer_.outlook = expected(now);
    offer_.outlook.lost = lost;
    expected_until_ = now + kExpectEvery;
  }
  set_waiting(0, Time::infinite(), Time::infinite());
}

void SharedBatcher::set_patient(Time arrival, Time now) {
  offer_.patient = true;
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
  while (items > 1 && without + latency(items) > limit_) --items;
  return items;
}

}  // namespace fermata::policy
