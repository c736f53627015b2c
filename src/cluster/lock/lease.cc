#include "cluster/lock/lease.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace fermata::cluster {
LeaseCandidate::LeaseCandidate(LeaseStore& store, std::string identity, Duration duration,
                               std::function<Time()> clock, SchedulerLock::Events events)
    : store_(store),
      identity_(std::move(identity)),
      duration_(duration),
      clock_(std::move(clock)),
      events_(std::move(events)) {}

Duration LeaseCandidate::turn() {
  if (lost_) return Duration::infinite();
  return holds_ ? renew() : stand_by();
}

Duration LeaseCandidate::renew() {
  const auto left = [this] { return keep_until_ - clock_(); };
  const auto limit = [&] { return std::min(duration_ / 4, left()); };
  const Time started = clock_();
  const uint64_t heard = events_.heard ? events_.heard() : 0;
  const bool rises = heard > epoch() && heard < std::numeric_limits<int32_t>::max();
  const int64_t transitions = rises ? static_cast<int64_t>(heard) : transitions_;
  if (left() > Duration()) {
    auto written = store_.write(mine(version_, transitions), limit());
    if (written.ok()) {
      version_ = *std::move(written);
      transitions_ = transitions;
      keep_until_ = started + duration_ * 3 / 4;
      if (rises) events_.held(epoch());
      complain(absl::OkStatus());
      return duration_ / 4;
    }
    complain(written.status());
    if (absl::IsAborted(written.status()) && left() > Duration()) {
      const auto found = store_.read(limit());
      if (found.ok() && !found->version.empty() && found->holder != identity_) {
        lose(fmt::format("{} holds it", found->holder.empty() ? "nobody" : found->holder));
        return Duration::infinite();
      }
      if (found.ok()) version_ = found->version;  // others have changed or deleted it
    }
  }
  if (left() <= Duration()) {
    lose(fmt::format("not renewed for {} s: {}", (duration_ * 3 / 4).seconds(), complaint_));
    return Duration::infinite();
  }
  return std::min(duration_ / 20, left());
}

Duration LeaseCandidate::stand_by() {
  const auto found = store_.read(duration_ / 4);
  complain(found.status());
  if (!found.ok()) return duration_ / 4;
  if (!found->version.empty()) {
    most_transitions_ = std::max(most_transitions_.value_or(0), found->transitions);
  }
  if (!may_take(*found)) return std::min(duration_ / 4, free_ - clock_());
  return take(*found);
}

bool LeaseCandidate::may_take(const LeaseRecord& found) {
  // Its own: it has been written although the answer did not come.
  if (found.version.empty() || found.holder.empty() || found.holder == identity_) return true;
  const bool renewed = !seen_ || seen_->holder != found.holder || seen_->renewed != found.renewed ||
                       seen_->transitions != found.transitions;
  const Time now = clock_();
  if (renewed) {
    if (!seen_ || seen_->holder != found.holder) {
      spdlog::info("stands by: {} holds the lease", found.holder);
    }
    seen_ = found;
    free_ = now + found.duration;
  }
  return now >= free_;
}

Duration LeaseCandidate::take(const LeaseRecord& found) {
  const bool again = !found.version.empty() && found.holder == identity_;
  const int64_t transitions = again               ? found.transitions
                              : most_transitions_ ? *most_transitions_ + 1
                                                  : 0;
  const Time started = clock_();
  auto written = store_.write(mine(found.version, transitions), duration_ / 4);
  if (!written.ok()) {
    if (!absl::IsAborted(written.status())) complain(written.status());
    return duration_ / 20;
  }
  keep_until_ = started + duration_ * 3 / 4;
  if (clock_() >= keep_until_) return Duration();  // known too late to decide by
  holds_ = true;
  version_ = *std::move(written);
  transitions_ = transitions;
  spdlog::info("the active scheduler, of epoch {}", epoch());
  events_.held(epoch());
  return duration_ / 4;
}

void LeaseCandidate::give_up() {
  if (!holds_) return;
  holds_ = false;
  LeaseRecord record = mine(version_, transitions_);
  record.holder.clear();
  complain(store_.write(record, duration_ / 4).status());
}

void LeaseCandidate::lose(const std::string& why) {
  spdlog::error("the lease is lost: {}", why);
  holds_ = false;
  lost_ = true;
  events_.lost();
}

void LeaseCandidate::complain(const absl::Status& why) {
  const std::string text(why.message());
  if (text == complaint_) return;
  complaint_ = text;
  if (!why.ok()) spdlog::warn("cluster.lease: {}", text);
}

LeaseRecord LeaseCandidate::mine(const std::string& version, int64_t transitions) const {
  return {
      .version = version, .holder = identity_, .duration = duration_, .transitions = transitions};
}

}  // namespace fermata::cluster
