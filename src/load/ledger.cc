#include "load/ledger.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "load/agreement.h"

namespace fermata::load {

Ledger::Ledger(const LoadSpec& spec, const std::vector<std::vector<Record>>& records)
    : spec_(spec), records_(records), accounts_(spec.services.size()) {}

void Ledger::ended(const Sending& sending, Answer answer) {
  if (sending.scheduled >= count_from_) {
    const Time now = monotonic_now();
    const Duration latency = now - sending.scheduled;
    const Outcome outcome =
        given_up_ ? Outcome::kLost
                  : outcome_of(answer.status, latency, spec_.services[sending.service].slo);
    const std::optional<Label>& label = records_[sending.service][sending.record].label;
    std::optional<bool> correct;
    if (label && answer.status.ok()) correct = agrees(*label, answer.outputs);
    const bool rejected = outcome == Outcome::kRejectedDeadline;
    accounts_[sending.service].add(outcome, rejected ? now - sending.sent : latency, answer,
                                   correct);
  }
  if (++ended_ == awaited_) {
    std::lock_guard lock(mutex_);
    all_ended_.notify_all();
  }
}

bool Ledger::wait_for_all(uint64_t sent, Duration time) {
  std::unique_lock lock(mutex_);
  awaited_ = sent;
  return all_ended_.wait_for(lock, std::chrono::nanoseconds(time.nanos()),
                             [&] { return ended_ == sent; });
}

}  // namespace fermata::load
