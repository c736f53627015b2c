#include "policy/stream/stream_sessions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/status.h"

namespace fermata::policy {
namespace {

constexpr Duration kShortestGap = Duration::millis(50);  // between two plans
constexpr Duration kSilence = Duration::seconds(5);
constexpr double kBandwidthChange = 0.25;
constexpr double kFaster = 1.25, kBurst = 4;  // than registered, before frames are rejected
// In seconds of registered frames, beside kBurst: what a client may owe, and what may come at once.
constexpr double kMostOwed = 10, kLeastSaved = 1;
constexpr double kLeastMbps = 1e-3;
constexpr double kFirstMbps = 10;  // before a client has said anything
constexpr size_t kLongestId = 128;
constexpr double kLeastRate = 0.1;
constexpr Duration kShortestSlo = Duration::millis(1), kLongestSlo = Duration::seconds(3600);

}  // namespace

StreamSessions::StreamSessions(StreamSettings settings)
    : settings_(std::move(settings)),
      highest_accuracy_(highest_accuracy(settings_.variants)),
      addresses_(settings_.new_clients_rps),
      current_(settings_.workers, 0) {}

absl::Status StreamSessions::check_id(const StreamFrame& frame) {
  if (!frame.client.empty() && frame.client.size() <= kLongestId) return absl::OkStatus();
  return invalid("stream_client has {} characters, expected 1 to {}", frame.client.size(),
                 kLongestId);
}

absl::StatusOr<StreamSessions::Session*> StreamSessions::find_or_add(const StreamFrame& frame,
                                                                     Time now) {
  const Key key{frame.client, frame.owner};
  if (const auto known = sessions_.find(key); known != sessions_.end()) return &known->second;
  RETURN_IF_ERROR(check_id(frame));
  if (!frame.rate_rps) {
    return invalid(
        "stream_rate is missing, expected frames a second: the first message of a client on a "
        "connection names it");
  }
  if (!frame.slo && !settings_.slo) return invalid("stream_slo is missing, expected microseconds");
  RETURN_IF_ERROR(admit(frame, now));
  Session session;
  session.address = frame.address;
  session.slo = settings_.slo.value_or(Duration());
  session.min_accuracy = settings_.min_accuracy;
  session.bandwidth_mbps = session.sure_mbps = session.planned_mbps = kFirstMbps;
  session.allowance = kBurst;
  session.heard = session.allowance_at = session.last_frame = now;
  RETURN_IF_ERROR(update(frame, session, now));
  const double said = *frame.rate_rps;
  session.rate = FrameRate(said, addresses_.came(frame.address, said, now), now);
  changed_ = changed_ || session.rate_rps(now) > 0;
  owned_[frame.owner].insert(frame.client);
  return &sessions_.emplace(key, std::move(session)).first->second;
}

size_t StreamSessions::clients_of(uint64_t owner) const {
  const auto own = owned_.find(owner);
  return owner == 0 || own == owned_.end() ? 0 : own->second.size();
}

// Whether there is room for one more, which silent ones make.
absl::Status StreamSessions::admit(const StreamFrame& frame, Time now) {
  const auto full = [](std::string_view who, size_t has, std::string_view limit) {
    return error(absl::StatusCode::kResourceExhausted, "{} {} clients already, expected at most {}",
                 who, has, limit);
  };
  const uint32_t all = settings_.most_clients;
  const bool is_full = sessions_.size() >= all;
  const size_t of_connection = clients_of(frame.owner);
  const uint32_t most_own = settings_.most_of_connection;
  if (of_connection >= (most_own > 0 ? most_own : (all + 3) / 4)) {
    if (is_full) return full("the service has", sessions_.size(), "max_clients");
    return full("this connection has", of_connection, "max_clients_per_connection");
  }
  const uint32_t of_address = addresses_.clients(frame.address);
  const uint32_t most_there = settings_.most_of_address;
  if (of_address >= (most_there > 0 ? most_there : (all + 1) / 2)) {
    if (make_room(frame, true, now)) return absl::OkStatus();
    return full(fmt::format("the address {} has", frame.address), of_address,
                "max_clients_per_address");
  }
  if (!is_full || make_room(frame, false, now)) return absl::OkStatus();
  return full("the service has", sessions_.size(), "max_clients");
}

// Forgets a client that only says that it is there: of the address and the connection that have the
// most, the one that came first. Not one that is new and has no more beside it than the newcomer.
bool StreamSessions::make_room(const StreamFrame& newcomer, bool at_its_address, Time now) {
  if (newcomer.owner == 0) return false;
  const std::pair<size_t, size_t> own(addresses_.clients(newcomer.address) + 1,
                                      clients_of(newcomer.owner) + 1);
  std::tuple<size_t, size_t, Duration> most;
  auto silent = sessions_.end();
  for (auto each = sessions_.begin(); each != sessions_.end(); ++each) {
    const auto& [key, session] = *each;
    if (session.rate.has_frames(now)) continue;
    if (at_its_address && session.address != newcomer.address) continue;
    const std::pair<size_t, size_t> beside(addresses_.clients(session.address),
                                           clients_of(key.second));
    const bool crowds = at_its_address ? beside.second > own.second : beside > own;
    if (!crowds && session.rate.per_second(now) > 0) continue;
    const std::tuple here(beside.first, beside.second, now - session.rate.came());
    if (silent != sessions_.end() && here <= most) continue;
    most = here;
    silent = each;
  }
  if (silent == sessions_.end()) return false;
  forget(silent);
  return true;
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
  if (frame.rate_rps) session.rate.say(*frame.rate_rps);
  if (frame.slo) session.slo = *frame.slo;
  if (frame.min_accuracy) session.min_accuracy = *frame.min_accuracy;
  if (frame.round_trip) session.round_trip = std::min(*frame.round_trip, session.slo);
  if (frame.bandwidth_mbps) {
    session.bandwidth_mbps = std::clamp(*frame.bandwidth_mbps, kLeastMbps, kMostMbps);
    session.sure_mbps = std::clamp(frame.sure_mbps.value_or(session.bandwidth_mbps), kLeastMbps,
                                   session.bandwidth_mbps);
    session.told = true;
    const double change = session.bandwidth_mbps / session.planned_mbps;
    const bool is_much = change < 1 - kBandwidthChange || change > 1 + kBandwidthChange;
    changed_ = changed_ || (is_much && session.rate_rps(now) > 0);
  }
  session.heard = now;
  return absl::OkStatus();
}

double StreamSessions::Session::rate_rps(Time now) const {
  const bool is_rejected = planned && !variant && now < rejected_until;
  return std::max(rate.per_second(now), is_rejected ? rejected_rps : 0);
}

// How many frames of the size that the client was told take a worker as long as this one.
double StreamSessions::charge(uint32_t variant, const Session& session, Time now) const {
  const auto each = [this](uint32_t v) {
    const LatencyTable& latency = *settings_.variants[v].latency;
    return latency(latency.max_batch()).seconds() / latency.max_batch();
  };
  uint32_t told = session.variant.value_or(0);
  if (now < session.excused_until) told = std::max(told, session.excused);
  return variant <= told ? 1 : std::max(each(variant) / std::max(each(told), 1e-9), 1.0);
}

absl::Status StreamSessions::take_allowance(const StreamFrame& frame, uint32_t variant,
                                            double charge, Session& session, Time now) {
  now = std::max(now, session.allowance_at);  // others came later, and were told of before
  const double since = (now - session.allowance_at).seconds(), rate = session.rate.said();
  // Where its link stands still, what it sends within its objective comes at once, and in time.
  const double saved = std::clamp(session.slo.seconds(), kLeastSaved, kMostOwed);
  session.allowance = std::min(session.allowance + since * rate * kFaster, kBurst + rate * saved);
  session.allowance_at = now;
  if (session.allowance < 1) {
    ++totals_.flooded;
    const std::string why =
        charge > 1 ? fmt::format("; a frame of {} counts as {:.1f} of {}, which it was told",
                                 settings_.variants[variant].input_size, charge,
                                 settings_.variants[session.variant.value_or(0)].input_size)
                   : "";
    return error(absl::StatusCode::kResourceExhausted,
                 "stream_client '{}' sends more than the {} frames a second that it registered{}; "
                 "it may send the next in {:.1f} s",
                 frame.client, rate, why, (1 - session.allowance) / (rate * kFaster));
  }
  session.allowance = std::max(session.allowance - charge, -(kBurst + rate * kMostOwed));
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

absl::StatusOr<StreamRoute> StreamSessions::frame(const StreamFrame& frame, Time now) {
  ASSIGN_OR_RETURN(Session * session, find_or_add(frame, now));
  RETURN_IF_ERROR(update(frame, *session, now));
  ASSIGN_OR_RETURN(const uint32_t variant, variant_of(frame, *session));
  const double cost = charge(variant, *session, now);
  RETURN_IF_ERROR(take_allowance(frame, variant, cost, *session, now));
  ++totals_.frames;
  session->sizes.measure(settings_.variants[variant].input_size, frame.bytes);
  session->lately_mbps[session->frames++ % kFewFrames] = session->bandwidth_mbps;
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
  const Duration network = network_time(frame.bytes, *session, variant);
  StreamRoute route{variant, session->variant.value_or(variant), network,
                    now + session->slo - network - settings_.slack, now};
  // What cannot end in time never takes a worker.
  const Time last = route.deadline - run_time(variant);
  if (now <= last) {
    session->rate.count(cost, now);
    addresses_.proven(session->address, session->rate.take_proven());
    changed_ = changed_ || !session->planned;
  }
  if (settings_.phases && session->variant == variant) {
    const Duration early = shift(*session) + kTogether;
    if (early > Duration() && early < kTogether * 3 && now + early <= last) {
      route.start_from = now + early;
    }
  }
  return route;
}

absl::Status StreamSessions::hello(const StreamFrame& frame, Time now) {
  ASSIGN_OR_RETURN(Session * session, find_or_add(frame, now));
  return update(frame, *session, now);
}

void StreamSessions::leave(std::string_view client, uint64_t owner) {
  const auto known = sessions_.find({std::string(client), owner});
  if (known != sessions_.end()) forget(known);
}

void StreamSessions::close(uint64_t owner) {
  const auto own = owned_.extract(owner);
  if (own.empty()) return;
  for (const std::string& client : own.mapped()) forget(sessions_.find({client, owner}));
}

StreamSessions::Sessions::iterator StreamSessions::forget(Sessions::iterator session) {
  const auto& [client, owner] = session->first;
  if (const auto own = owned_.find(owner); own != owned_.end()) {
    own->second.erase(client);
    if (own->second.empty()) owned_.erase(own);
  }
  addresses_.left(session->second.address);
  changed_ = changed_ || session->second.planned;
  return sessions_.erase(session);
}

StreamAdvice StreamSessions::advice(std::string_view client, uint64_t owner) const {
  const auto known = sessions_.find({std::string(client), owner});
  // Until the first plan the smallest does the least harm, and to who is not known: nobody has
  // found that no DNN can serve it.
  if (known == sessions_.end()) return {settings_.variants.front().input_size, Duration()};
  const Session& session = known->second;
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
  addresses_.forget_idle(now);
  return last_plan_ + (changed_ ? kShortestGap : settings_.period) <= now &&
         (changed_ || !sessions_.empty());
}

}  // namespace fermata::policy
