#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "policy/stream/stream_sessions.h"

// What plans are asked, and what becomes of them.

namespace fermata::policy {
namespace {

constexpr uint32_t kPrefetched = 2;   // neighbours on either side
constexpr double kLeastScale = 1e-6;  // of a client's frames by those of all
// Who is unmapped counts on, at first and at most.
constexpr Duration kRejected = Duration::seconds(4), kLongestRejected = Duration::seconds(60);
constexpr Duration kUnderWay = Duration::seconds(2);  // frames of the size that was told before

}  // namespace

// As configured, or the middle one of what the clients' frames are; 0: nothing is known.
double StreamSessions::request_kb(uint32_t variant) const {
  const StreamSettings::Variant& v = settings_.variants[variant];
  if (v.request_kb > 0) return v.request_kb;
  std::vector<double> all;
  for (const auto& [key, session] : sessions_) {
    if (session.sizes.known()) all.push_back(session.sizes.kb(v.input_size));
  }
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

// The client's own frames by those of request_kb(). One of whom nothing is known has those of all;
// where these would not be served it has none, so that it can show its own.
double StreamSessions::scale(const Session& session,
                             const std::vector<plan::StreamVariant>& variants) const {
  if (!session.sizes.known()) return session.unmapped_unseen ? kLeastScale : 1;
  for (size_t v = 0; v < variants.size(); ++v) {
    if (variants[v].input_size != session.sizes.last()) continue;
    const double of_all = variants[v].request_kb, own = own_kb(session, static_cast<uint32_t>(v));
    return of_all > 0 ? std::max(own / of_all, kLeastScale) : 1;
  }
  return 1;
}

// A frame that comes in its phase waits for less; where the link is unsteady it may miss it.
std::optional<double> StreamSessions::batches_ahead(const Session& session) const {
  if (!settings_.phases) return std::nullopt;
  const double kb = own_kb(session, session.variant.value_or(0));
  const double unsure_ms = kb * 8 * (1 / session.sure_mbps - 1 / session.bandwidth_mbps);
  const double steady = std::max(1 - unsure_ms / (4 * kTogether.millis()), 0.0);
  return 1 - (1 - settings_.phased_wait) * steady;
}

double StreamSessions::own_kb(const Session& session, uint32_t variant) const {
  const StreamSettings::Variant& v = settings_.variants[variant];
  return v.request_kb > 0 ? v.request_kb : session.sizes.kb(v.input_size);
}

plan::StreamProblem StreamSessions::problem(Time now) {
  plan::StreamProblem p;
  p.workers = settings_.workers;
  p.period_ms = settings_.period.millis();
  p.solver = settings_.solver;
  p.current = current_;
  for (uint32_t v = 0; v < settings_.variants.size(); ++v) {
    const StreamSettings::Variant& variant = settings_.variants[v];
    p.variants.push_back({variant.name, variant.input_size, variant.accuracy, request_kb(v),
                          variant.latency, variant.delay.millis()});
  }
  asked_.clear();
  for (auto& [key, session] : sessions_) {
    session.planned_mbps = session.bandwidth_mbps;
    const double rate = session.rate_rps(now);
    if (rate == 0) {  // it is told what new ones are
      session.planned = false;
      session.variant.reset();
      continue;
    }
    const bool is_first = asked_.empty() || asked_.back().first != key.first;
    const double slo_ms = (session.slo - settings_.slack).millis();
    const double own = scale(session, p.variants);
    p.clients.push_back(
        {is_first ? key.first : fmt::format("{} #{}", key.first, key.second), rate,
         std::max(slo_ms, 0.001), planned_mbps(session, p.variants, slo_ms, rate, own) / own,
         session.round_trip.millis(), session.min_accuracy, batches_ahead(session)});
    asked_.push_back(key);
  }
  changed_ = false;
  last_plan_ = now;
  return p;
}

void StreamSessions::switch_to(uint32_t worker, uint32_t variant) {
  const uint32_t before = std::exchange(current_[worker], variant);
  totals_.switches += before != variant;
  const uint32_t apart = std::max(before, variant) - std::min(before, variant);
  totals_.near_switches += apart > 0 && apart <= kPrefetched;
}

// Who is found too much counts as such for a while, the longer the more often in a row, so that
// it does not come back with every plan. Before few frames have told of its link that may be wrong,
// and it gets its next chance as soon as the first.
void StreamSessions::map(Session& session, std::optional<uint32_t> variant, double asked_rps) {
  const bool was_unmapped = session.planned && !session.variant;
  if (!variant && !was_unmapped) {
    const bool again =
        session.frames >= kFewFrames && last_plan_ < session.rejected_until + session.rejected_for;
    session.rejected_for = again ? std::min(session.rejected_for * 2, kLongestRejected) : kRejected;
    session.rejected_rps = asked_rps;
    session.rejected_until = last_plan_ + session.rejected_for;
  }
  if (session.variant && variant.value_or(0) < *session.variant) {
    session.excused = *session.variant;
    session.excused_until = last_plan_ + kUnderWay;
  }
  session.variant = variant;
  session.planned = true;
  if (!variant) session.unmapped_unseen = !session.sizes.known();
}

void StreamSessions::planned(const plan::StreamProblem& problem, const plan::StreamPlan& plan) {
  ++totals_.plans;
  const auto session_of = [&](uint32_t client) -> Session* {
    const auto known = sessions_.find(asked_[client]);
    return known == sessions_.end() ? nullptr : &known->second;  // it has gone meanwhile
  };
  for (const uint32_t c : plan.unmapped) {
    if (Session* session = session_of(c)) map(*session, {}, problem.clients[c].rate_rps);
  }
  std::vector<bool> seen(current_.size());  // of a worker in parts, what its first part runs counts
  for (const plan::StreamPlan::Worker& worker : plan.workers) {
    if (!seen[worker.worker]) switch_to(worker.worker, worker.variant);
    seen[worker.worker] = true;
    std::vector<Session*> members;
    for (const uint32_t c : worker.clients) {
      Session* session = session_of(c);
      if (session == nullptr) continue;
      map(*session, worker.variant, problem.clients[c].rate_rps);
      members.push_back(session);
    }
    set_phases(worker, std::move(members));
  }
}

// Clients of one rate come in batches that are spread evenly over the interval between two frames:
// as many as leave the worker most time, and the frames most of theirs. Who is near in phase comes
// together, so that plans move few.
void StreamSessions::set_phases(const plan::StreamPlan::Worker& worker,
                                std::vector<Session*> members) {
  const LatencyTable& latency = *settings_.variants[worker.variant].latency;
  std::stable_sort(members.begin(), members.end(),
                   [](const Session* a, const Session* b) { return a->phase < b->phase; });
  std::map<double, std::vector<Session*>> by_rate;
  for (Session* session : members) by_rate[session->rate.said()].push_back(session);
  for (const auto& of_rate : by_rate) {
    const std::vector<Session*>& alike = of_rate.second;
    const double interval = alike.front()->interval().seconds();
    const size_t least = (alike.size() + latency.max_batch() - 1) / latency.max_batch();
    const auto crowded = [&](size_t batches) {
      const auto size = static_cast<uint32_t>((alike.size() + batches - 1) / batches);
      const double run = latency(size).seconds();
      double most = static_cast<double>(batches) * run / interval;
      for (const Session* session : alike) {
        const double transfer_s = own_kb(*session, worker.variant) * 8e-3 / session->bandwidth_mbps;
        most = std::max(most, run / std::max(session->slo.seconds() - transfer_s, 1e-6));
      }
      return most;
    };
    size_t batches = least;
    for (size_t n = least; n <= alike.size(); ++n) {
      if (crowded(n) < crowded(batches)) batches = n;
    }
    for (size_t i = 0; i < alike.size(); ++i) {
      const auto slot = static_cast<double>(i * batches / alike.size());
      alike[i]->phase = Duration::from_seconds(interval * slot / static_cast<double>(batches));
    }
  }
}

}  // namespace fermata::policy
