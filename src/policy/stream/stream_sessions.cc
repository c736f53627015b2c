#include "policy/stream/stream_sessions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace fermata::policy {
namespace {

constexpr Duration kShortestGap = Duration::millis(50);  // between two plans
constexpr Duration kSilence = Duration::seconds(5);
constexpr double kBandwidthChange = 0.25;
constexpr double kFaster = 1.25, kBurst = 4;  // than registered, before frames are rejected
constexpr double kLeastMbps = 1e-3, kMostMbps = 1e5;
constexpr double kRoomToWait = 3;    // run times alone that an objective has room for
constexpr uint32_t kPrefetched = 2;  // neighbours on either side
constexpr Duration kTogether = Duration::millis(3);  // within which frames of a batch come
constexpr double kFirstMbps = 10;                    // before a client has said anything
constexpr double kSmoothing = 0.1;                   // of measured rates
constexpr double kLeastScale = 1e-6;                 // of a client's frames by those of all
constexpr double kLeastShare = 0.25;                 // of the registered rate that is planned for
constexpr size_t kLongestId = 128;
constexpr double kLeastRate = 0.1;
constexpr Duration kShortestSlo = Duration::millis(1), kLongestSlo = Duration::seconds(3600);

}  // namespace

StreamSessions::StreamSessions(StreamSettings settings)
    : settings_(std::move(settings)),
      highest_accuracy_(highest_accuracy(settings_.variants)),
      current_(settings_.workers, 0) {}

absl::StatusOr<StreamSessions::Session*> StreamSessions::find_or_add(const StreamFrame& frame,
                                                                     Time now) {
  const auto known = sessions_.find(frame.client);
  if (known != sessions_.end()) {
    if (known->second.owner == frame.owner) return &known->second;
    if (known->second.heard + kSilence < now) {
      owned_.erase({known->second.owner, frame.client});
      owned_.insert({frame.owner, frame.client});
      known->second.owner = frame.owner;
      return &known->second;
    }
    return error(absl::StatusCode::kAlreadyExists,
                 "stream_client '{}' is the id of another client that is connected", frame.client);
  }
  if (frame.client.empty() || frame.client.size() > kLongestId) {
    return invalid("stream_client has {} characters, expected 1 to {}", frame.client.size(),
                   kLongestId);
  }
  if (!frame.rate_rps) return invalid("stream_rate is missing, expected frames a second");
  if (!frame.slo && !settings_.slo) return invalid("stream_slo is missing, expected microseconds");
  if (sessions_.size() >= settings_.most_clients) {
    return error(absl::StatusCode::kResourceExhausted, "{} clients are connected already",
                 sessions_.size());
  }
  Session session;
  session.owner = frame.owner;
  session.slo = settings_.slo.value_or(Duration());
  session.min_accuracy = settings_.min_accuracy;
  session.bandwidth_mbps = session.sure_mbps = session.planned_mbps = kFirstMbps;
  session.allowance = kBurst;
  session.heard = session.allowance_at = session.last_frame = now;
  RETURN_IF_ERROR(update(frame, session, now));
  session.measured_rps = session.rate_rps;
  changed_ = true;
  owned_.insert({frame.owner, frame.client});
  return &sessions_.emplace(frame.client, std::move(session)).first->second;
}

absl::Status StreamSessions::update(const StreamFrame& frame, Session& session, Time now) {
  const auto outside = [](double value, double low, double high) {
    return !(value >= low && value <= high);
  };
  if (frame.rate_rps && outside(*frame.rate_rps, kLeastRate, settings_.most_rate_rps)) {
    return invalid("stream_rate is {}, expected {} to {} frames a second", *frame.rate_rps,
                   kLeastRate, settings_.most_rate_rps);
  }
  if (frame.slo && (*frame.slo < kShortestSlo || *frame.slo > kLongestSlo)) {
    return invalid("stream_slo is {} us, expected {} to {}", frame.slo->micros(),
                   kShortestSlo.micros(), kLongestSlo.micros());
  }
  if (frame.min_accuracy && outside(*frame.min_accuracy, 0, highest_accuracy_)) {
    return invalid("stream_min_accuracy is {}, expected 0 to {}, the most accurate DNN's",
                   *frame.min_accuracy, highest_accuracy_);
  }
  if (frame.bandwidth_mbps && !(*frame.bandwidth_mbps > 0)) {
    return invalid("stream_bandwidth is {} Mbit/s, expected a positive number",
                   *frame.bandwidth_mbps);
  }
  if (frame.sure_mbps && !(*frame.sure_mbps > 0)) {
    return invalid("stream_sure_bandwidth is {} Mbit/s, expected a positive number",
                   *frame.sure_mbps);
  }
  if (frame.round_trip && *frame.round_trip < Duration()) {
    return invalid("stream_rtt is {} us, expected a number that is not negative",
                   frame.round_trip->micros());
  }
  if (frame.rate_rps) session.rate_rps = *frame.rate_rps;
  if (frame.slo) session.slo = *frame.slo;
  if (frame.min_accuracy) session.min_accuracy = *frame.min_accuracy;
  if (frame.round_trip) session.round_trip = std::min(*frame.round_trip, session.slo);
  if (frame.bandwidth_mbps) {
    session.bandwidth_mbps = std::clamp(*frame.bandwidth_mbps, kLeastMbps, kMostMbps);
    session.sure_mbps = std::clamp(frame.sure_mbps.value_or(session.bandwidth_mbps), kLeastMbps,
                                   session.bandwidth_mbps);
    const double change = session.bandwidth_mbps / session.planned_mbps;
    if (change < 1 - kBandwidthChange || change > 1 + kBandwidthChange) changed_ = true;
  }
  session.heard = now;
  return absl::OkStatus();
}

absl::Status StreamSessions::take_allowance(const StreamFrame& frame, Session& session, Time now) {
  const double since = (now - session.allowance_at).seconds();
  session.allowance =
      std::min(session.allowance + since * session.rate_rps * kFaster, kBurst + session.rate_rps);
  session.allowance_at = now;
  if (session.allowance < 1) {
    ++totals_.flooded;
    return error(absl::StatusCode::kResourceExhausted,
                 "stream_client '{}' sends more than the {} frames a second that it registered",
                 frame.client, session.rate_rps);
  }
  session.allowance -= 1;
  const double gap = std::max((now - session.last_frame).seconds(), 1e-3);
  session.measured_rps += kSmoothing * (std::min(1 / gap, session.rate_rps) - session.measured_rps);
  session.last_frame = now;
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> StreamSessions::variant_of(const StreamFrame& frame,
                                                    const Session& session) const {
  if (!frame.input_size) return session.variant.value_or(0);
  std::vector<uint32_t> sizes;
  for (uint32_t v = 0; v < settings_.variants.size(); ++v) {
    sizes.push_back(settings_.variants[v].input_size);
    if (sizes.back() == *frame.input_size) return v;
  }
  return invalid("stream_size is {}, expected one of {}", *frame.input_size,
                 fmt::join(sizes, ", "));
}

// As configured, or the middle one of what the clients' frames are; 0: nothing is known.
double StreamSessions::request_kb(uint32_t variant) const {
  const StreamSettings::Variant& v = settings_.variants[variant];
  if (v.request_kb > 0) return v.request_kb;
  std::vector<double> all;
  for (const auto& [id, session] : sessions_) {
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

absl::StatusOr<StreamRoute> StreamSessions::frame(const StreamFrame& frame, Time now) {
  ASSIGN_OR_RETURN(Session * session, find_or_add(frame, now));
  RETURN_IF_ERROR(update(frame, *session, now));
  ASSIGN_OR_RETURN(const uint32_t variant, variant_of(frame, *session));
  RETURN_IF_ERROR(take_allowance(frame, *session, now));
  ++totals_.frames;
  session->sizes.measure(settings_.variants[variant].input_size, frame.bytes);
  if (session->planned && !session->variant) {
    ++totals_.unmapped;
    return error(absl::StatusCode::kUnavailable,
                 "no DNN{} can serve stream_client '{}' within {} ms at {:.1f} Mbit/s beside the "
                 "other clients",
                 session->min_accuracy > 0
                     ? fmt::format(" of an accuracy of {} or more", session->min_accuracy)
                     : "",
                 frame.client, session->slo.millis(), session->bandwidth_mbps);
  }
  totals_.mismatches += session->variant && *session->variant != variant;
  const double transfer_s = static_cast<double>(frame.bytes) * 8e-6 / session->bandwidth_mbps;
  const Duration network = std::min(
      Duration::from_seconds(std::min(transfer_s, 3600.0)) + session->round_trip, session->slo);
  StreamRoute route{variant, session->variant.value_or(variant), network,
                    now + session->slo - network - settings_.slack, now};
  if (settings_.phases && session->variant == variant) {
    const Duration early = shift(*session) + kTogether;
    if (early > Duration() && early < kTogether * 3) route.start_from = now + early;
  }
  return route;
}

absl::Status StreamSessions::hello(const StreamFrame& frame, Time now) {
  ASSIGN_OR_RETURN(Session * session, find_or_add(frame, now));
  return update(frame, *session, now);
}

void StreamSessions::leave(std::string_view client, uint64_t owner) {
  const auto known = sessions_.find(client);
  if (known == sessions_.end() || known->second.owner != owner) return;
  forget(known);
}

void StreamSessions::close(uint64_t owner) {
  for (auto own = owned_.lower_bound({owner, ""}); own != owned_.end() && own->first == owner;
       own = owned_.lower_bound({owner, ""})) {
    forget(sessions_.find(own->second));
  }
}

StreamSessions::Sessions::iterator StreamSessions::forget(Sessions::iterator session) {
  owned_.erase({session->second.owner, session->first});
  changed_ = true;
  return sessions_.erase(session);
}

StreamAdvice StreamSessions::advice(std::string_view client) const {
  const auto known = sessions_.find(client);
  if (known == sessions_.end()) return {};
  const Session& session = known->second;
  // Until the first plan the smallest does the least harm.
  if (!session.planned) return {settings_.variants.front().input_size, Duration()};
  if (!session.variant) return {};
  StreamAdvice advice{settings_.variants[*session.variant].input_size, Duration()};
  if (!settings_.phases) return advice;
  advice.shift = shift(session);
  return advice;
}

// From its last frame to its phase; at most half an interval.
Duration StreamSessions::shift(const Session& session) const {
  const int64_t interval = session.interval().nanos();
  int64_t shift = (session.phase.nanos() - session.last_frame.nanos() % interval) % interval;
  if (shift < 0) shift += interval;
  return Duration::nanos(shift > interval / 2 ? shift - interval : shift);
}

void StreamSessions::learned(uint32_t variant, std::shared_ptr<const LatencyTable> latency,
                             Duration delay) {
  settings_.variants[variant].latency = std::move(latency);
  settings_.variants[variant].delay = delay;
}

bool StreamSessions::wants_plan(Time now) {
  for (auto each = sessions_.begin(); each != sessions_.end();) {
    each = each->second.heard + kSilence < now ? forget(each) : std::next(each);
  }
  return last_plan_ + (changed_ ? kShortestGap : settings_.period) <= now &&
         (changed_ || !sessions_.empty());
}

// What the client is sure of, but no less than what some DNN needs with room to wait, so that
// caution costs accuracy and not the service.
double StreamSessions::planned_mbps(const Session& session,
                                    const std::vector<plan::StreamVariant>& variants, double slo_ms,
                                    double scale) const {
  double needed = session.bandwidth_mbps;
  for (const plan::StreamVariant& v : variants) {
    const double left_ms =
        slo_ms - session.round_trip.millis() - v.delay_ms - kRoomToWait * (*v.latency)(1).millis();
    if (left_ms > 0) needed = std::min(needed, v.request_kb * scale * 8 / left_ms);
  }
  return std::max(session.sure_mbps, needed);
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
  for (auto& [id, session] : sessions_) {
    session.planned_mbps = session.bandwidth_mbps;
    const double rate =
        std::clamp(session.measured_rps * 1.05, session.rate_rps * kLeastShare, session.rate_rps);
    const double slo_ms = (session.slo - settings_.slack).millis();
    const double own = scale(session, p.variants);
    p.clients.push_back(
        {id, rate, std::max(slo_ms, 0.001), planned_mbps(session, p.variants, slo_ms, own) / own,
         session.round_trip.millis(), session.min_accuracy, batches_ahead(session)});
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

void StreamSessions::planned(const plan::StreamProblem& problem, const plan::StreamPlan& plan) {
  ++totals_.plans;
  const auto session_of = [&](uint32_t client) -> Session* {
    const auto known = sessions_.find(problem.clients[client].id);
    return known == sessions_.end() ? nullptr : &known->second;  // it has gone meanwhile
  };
  for (const uint32_t c : plan.unmapped) {
    if (Session* session = session_of(c)) {
      session->variant.reset();
      session->planned = true;
      session->unmapped_unseen = !session->sizes.known();
    }
  }
  std::vector<bool> seen(current_.size());  // of a worker in parts, what its first part runs counts
  for (const plan::StreamPlan::Worker& worker : plan.workers) {
    if (!seen[worker.worker]) switch_to(worker.worker, worker.variant);
    seen[worker.worker] = true;
    std::vector<Session*> members;
    for (const uint32_t c : worker.clients) {
      Session* session = session_of(c);
      if (session == nullptr) continue;
      session->variant = worker.variant;
      session->planned = true;
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
  for (Session* session : members) by_rate[session->rate_rps].push_back(session);
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
