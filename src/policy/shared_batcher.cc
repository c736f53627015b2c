#include "policy/shared_batcher.h"

#include <algorithm>

namespace fermata::policy {

Answer SharedBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
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
}

}  // namespace fermata::policy
