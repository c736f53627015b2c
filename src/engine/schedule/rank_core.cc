#include "engine/schedule/rank_core.h"

namespace fermata::engine {
namespace {

constexpr Duration kViewPeriod = Duration::millis(5);

}  // namespace

bool RankCore::turn(Time now) {
  bool busy =
      drain(inbox_.commands, [&](RankCommand& command) { command(*ranker_, now, grants_); });
  busy |= drain(inbox_.freed, [&](WorkerId worker) { apply_freed(worker, now); });
  busy |= drain(inbox_.answers, [&](const policy::Answer& a) { apply_answer(a, now); });
  busy |= drain(inbox_.offers, [&](OfferSlot* slot) {
    if (const policy::Offer* offer = slot->fetch()) ranker_->offered(*offer, now, grants_);
  });
  if (ranker_->next_wake() <= now) {
    ranker_->tick(now, grants_);
    busy = true;
  }
  if (!grants_.empty()) send_grants();
  if (now >= next_view_) show_pool(now);
  return busy;
}

void RankCore::apply_freed(WorkerId worker, Time now) {
  if (worker.index() >= running_.size()) running_.resize(worker.index() + 1);
  if (--running_[worker.index()] >= 0) ranker_->freed(worker, now, grants_);
}

void RankCore::apply_answer(const policy::Answer& answer, Time now) {
  ranker_->answered(answer, now, grants_);
  if (!answer.started) return;
  const size_t w = answer.worker.index();
  if (w >= running_.size()) running_.resize(w + 1);
  if (running_[w]++ < 0) ranker_->freed(answer.worker, now, grants_);
}

void RankCore::send_grants() {
  for (const policy::Grant& grant : grants_) {
    granted_[grant.key.index() % shards_.size()].push_back(grant);
  }
  grants_.clear();
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (granted_[s].empty()) continue;
    shards_[s]->grants.enqueue_bulk(granted_[s].begin(), granted_[s].size());
    shards_[s]->parker.unpark();
    granted_[s].clear();
  }
}

void RankCore::show_pool(Time now) {
  next_view_ = now + kViewPeriod;
  const Time first = now + ranker_->expected_wait(now);
  inbox_.first_free.store(first.nanos(), std::memory_order_relaxed);
}

}  // namespace fermata::engine
