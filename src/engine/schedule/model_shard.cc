#include "engine/schedule/model_shard.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::engine {

void ModelShard::add_key(std::unique_ptr<policy::RuleBatcher> batcher, OfferSlot* slot) {
  const size_t i = index(batcher->offer().key);
  if (i >= keys_.size()) {
    keys_.resize(i + 1);
    wakes_.resize(keys_.size());
  }
  keys_[i].batcher = std::move(batcher);
  keys_[i].slot = slot;
}

void ModelShard::remove_key(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  Key& removed = keys_[index(key)];
  // The ranker must not read an offer of it when the id has come again.
  policy::Offer nothing{.key = key};
  nothing.epoch = removed.batcher->offer().epoch;
  if (removed.slot->publish(nothing)) fresh_.push_back(removed.slot);
  removed.batcher.reset();
  wakes_.set(index(key), Time::infinite());
}

void ModelShard::set_latency(KeyId key, LatencyByType latency, Time now, policy::Decisions& out) {
  keys_[index(key)].batcher->set_latency(std::move(latency), now, out);
  woken(index(key));
}

void ModelShard::set_delay_bound(policy::DelayBound bound) {
  for (Key& key : keys_) {
    if (key.batcher != nullptr) key.batcher->set_delay_bound(bound);
  }
}

void ModelShard::set_rules(const policy::Rules& rules, Time now, policy::Decisions& out) {
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i].batcher == nullptr) continue;
    keys_[i].batcher->set_rules(rules, now, out);
    woken(i);
  }
}

bool ModelShard::turn(Time now, ShardDecisions& out) {
  out.decisions.clear();
  out.withdrawn.clear();
  bool busy = run_commands(now, out.decisions);
  busy |= serve_grants(now, out.decisions);
  busy |= take_messages(now, out);
  busy |= wake_batchers(now, out.decisions);
  if (busy) publish();
  explain_drops(now, out.decisions);
  return busy;
}

bool ModelShard::run_commands(Time now, policy::Decisions& out) {
  return drain(inbox_.commands, [&](ShardCommand& command) { command(*this, now, out); });
}

bool ModelShard::serve_grants(Time now, policy::Decisions& out) {
  return drain(inbox_.grants, [&](const policy::Grant& grant) {
    const size_t i = index(grant.key);
    if (keys_[i].batcher == nullptr) {  // it crossed the key's removal
      answers_.push_back({grant.worker, false, grant.free_at});
      return;
    }
    answers_.push_back(keys_[i].batcher->granted(grant, now, out));
    woken(i);
  });
}

bool ModelShard::take_messages(Time now, ShardDecisions& out) {
  const auto take = [&](const ShardInbox::Message& message) {
    const auto& [task, withdraw] = message;
    const size_t i = index(task.key);
    Key& key = keys_[i];
    if (key.batcher == nullptr) {  // a withdrawal that crossed the key's removal
      FERMATA_CHECK(withdraw);
      return;
    }
    if (!withdraw) {
      key.batcher->nominated(task, now);
    } else if (key.batcher->withdrawn(task)) {
      out.withdrawn.push_back(task);
    }
    key.undecided = true;
    changed(i);
  };
  const size_t n = drain_some(inbox_.messages, kMessages, take);
  for (size_t i : changed_) decide(i, now, out.decisions);
  return n > 0;
}

void ModelShard::decide(size_t index, Time now, policy::Decisions& out) {
  Key& key = keys_[index];
  if (!key.undecided) return;
  key.undecided = false;
  key.batcher->tick(now, out);
  woken(index);
}

bool ModelShard::wake_batchers(Time now, policy::Decisions& out) {
  bool any = false;
  for (; wakes_.top() <= now; any = true) {
    const size_t i = wakes_.top_index();
    keys_[i].batcher->tick(now, out);
    woken(i);
  }
  return any;
}

// Its batcher has decided.
void ModelShard::woken(size_t index) {
  wakes_.set(index, keys_[index].batcher->next_wake());
  changed(index);
}

// Answers first: the ranker then meets a key's new offer with its worker settled.
void ModelShard::publish() {
  for (size_t i : changed_) {
    Key& key = keys_[i];
    key.changed = false;
    if (key.batcher == nullptr) continue;
    if (key.slot->publish(key.batcher->offer())) fresh_.push_back(key.slot);
  }
  changed_.clear();
  if (answers_.empty() && fresh_.empty()) return;
  if (!answers_.empty()) rank_.answers.enqueue_bulk(answers_.begin(), answers_.size());
  if (!fresh_.empty()) rank_.offers.enqueue_bulk(fresh_.begin(), fresh_.size());
  answers_.clear();
  fresh_.clear();
  rank_.parker.unpark();
}

// A batcher knows how long a refused task would run, the ranker how long it
// would wait.
void ModelShard::explain_drops(Time now, policy::Decisions& out) const {
  if (out.dropped.empty()) return;
  const Time first_free = Time::from_nanos(rank_.first_free.load(std::memory_order_relaxed));
  const Duration wait = std::max(first_free - now, Duration());
  for (policy::Dropped& dropped : out.dropped) dropped.wait = wait;
}

}  // namespace fermata::engine
