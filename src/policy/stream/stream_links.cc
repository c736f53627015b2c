#include <algorithm>

#include "policy/stream/stream_sessions.h"

// What is believed of clients' links.

namespace fermata::policy {
namespace {

constexpr double kRoomToWait = 3;  // run times alone that an objective has room for
constexpr double kMisleading = 8;  // how far the first transfers may mislead

}  // namespace

Duration StreamSessions::run_time(uint32_t variant) const {
  return (*settings_.variants[variant].latency)(1);
}

// What the link may be, as far as a few frames tell. As many of them decide at any rate: by time,
// one slow transfer would shut out a client that sends seldom, and who is out measures no others.
double StreamSessions::hoped_mbps(const Session& session) const {
  if (session.frames < kFewFrames) {
    return session.told ? std::min(kMisleading * session.bandwidth_mbps, kMostMbps) : kMostMbps;
  }
  const auto& lately = session.lately_mbps;
  return std::max(session.bandwidth_mbps, *std::max_element(lately.begin(), lately.end()));
}

// As the client's bandwidth says. Where that leaves no room to run and wait, the frame has this
// room as far as the link may be faster: one slow transfer is no reason to reject it.
Duration StreamSessions::network_time(uint64_t bytes, const Session& session,
                                      uint32_t variant) const {
  const auto at = [&](double mbps) {
    const double transfer_s = std::min(static_cast<double>(bytes) * 8e-6 / mbps, 3600.0);
    return std::min(Duration::from_seconds(transfer_s) + session.round_trip, session.slo);
  };
  const Duration told = at(session.bandwidth_mbps);
  const Duration most = session.slo - settings_.slack - run_time(variant).scaled(kRoomToWait);
  return told <= most ? told : std::min(told, std::max(at(hoped_mbps(session)), most));
}

// What the client is sure of, but no less than what some DNN needs, with room to wait if there can
// be, so that caution costs accuracy and not the service.
double StreamSessions::planned_mbps(const Session& session,
                                    const std::vector<plan::StreamVariant>& variants, double slo_ms,
                                    double rate, double scale) const {
  double needed = hoped_mbps(session);
  for (const plan::StreamVariant& v : variants) {
    if (v.accuracy < session.min_accuracy) continue;
    const double run_ms = (*v.latency)(1).millis();
    const double budget_ms = slo_ms - session.round_trip.millis() - v.delay_ms;
    const double roomy_ms = budget_ms - kRoomToWait * run_ms, least_ms = budget_ms - 2 * run_ms;
    const double left_ms = roomy_ms > 0 ? roomy_ms : least_ms;
    if (left_ms <= 0) continue;
    const double kbit = v.request_kb * scale * 8, sustained = kbit * rate / 1000 * (1 + 1e-9);
    needed = std::min(needed, std::max(kbit / left_ms, sustained));
  }
  return std::max(session.sure_mbps, needed);
}

}  // namespace fermata::policy
