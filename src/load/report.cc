#include "load/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/document.h"

namespace fermata::load {
namespace {

// A generator that is this late bends the arrivals that it is to make.
constexpr Duration kLateSends = Duration::millis(5);

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Account total_of(const LoadResult& result) {
  Account total;
  for (const Account& account : result.services) total.merge(account);
  return total;
}

Json quantile(const Histogram& histogram, double q) {
  return histogram.count() == 0 ? Json() : Json(histogram.quantile(q).millis());
}

Json account_json(const Account& a, double seconds) {
  Json json;
  json["offered"] = a.offered();
  for (size_t i = 0; i < kOutcomes; ++i) {
    json[std::string(name(static_cast<Outcome>(i)))] = a.outcomes[i];
  }
  json["offered_rps"] = static_cast<double>(a.offered()) / seconds;
  json["on_time_rps"] = static_cast<double>(a[Outcome::kOnTime]) / seconds;
  json["bad_rate"] = a.offered() == 0 ? 0 : 1 - share(a[Outcome::kOnTime], a.offered());
  json["p50_ms"] = quantile(a.latency, 0.5);
  json["p90_ms"] = quantile(a.latency, 0.9);
  json["p99_ms"] = quantile(a.latency, 0.99);
  json["max_ms"] = quantile(a.latency, 1);
  json["rejection_p50_ms"] = quantile(a.rejection, 0.5);
  json["rejection_p99_ms"] = quantile(a.rejection, 0.99);
  json["rejection_max_ms"] = quantile(a.rejection, 1);
  json["rejection_margin_min_ms"] = a.least_margin ? Json(a.least_margin->millis()) : Json();
  json["mean_batch"] = a.explained == 0 ? Json() : Json(a.mean_batch());
  json["queueing_p50_ms"] = quantile(a.queueing, 0.5);
  json["queueing_p99_ms"] = quantile(a.queueing, 0.99);
  json["run_p50_ms"] = quantile(a.run, 0.5);
  json["run_p99_ms"] = quantile(a.run, 0.99);
  json["labelled"] = a.labelled;
  json["accuracy"] = a.accuracy() ? Json(*a.accuracy()) : Json();
  json["failures"] = Json::object();
  for (const auto& [what, times] : a.failures) json["failures"][what] = times;
  return json;
}

std::string millis(const Histogram& histogram, double q) {
  return histogram.count() == 0 ? "-" : fmt::format("{:.2f}", histogram.quantile(q).millis());
}

constexpr std::string_view kRow =
    "{:<20} {:>10} {:>10} {:>7} {:>7} {:>9} {:>7} {:>7} {:>6}  {:>8} {:>8} {:>8} {:>6} {:>8}\n";

std::string row(std::string_view service, const Account& a, double seconds) {
  return fmt::format(fmt::runtime(kRow), service, fmt::format("{:.1f}", a.offered() / seconds),
                     fmt::format("{:.1f}", a[Outcome::kOnTime] / seconds),
                     fmt::format("{:.2f}%", 100 * share(a[Outcome::kOnTime], a.offered())),
                     a[Outcome::kLate], a[Outcome::kRejectedDeadline], a[Outcome::kRejectedQueue],
                     a[Outcome::kFailed], a[Outcome::kLost], millis(a.latency, 0.5),
                     millis(a.latency, 0.9), millis(a.latency, 0.99),
                     a.explained == 0 ? "-" : fmt::format("{:.1f}", a.mean_batch()),
                     a.accuracy() ? fmt::format("{:.4f}", *a.accuracy()) : "-");
}

std::string remarks(const Account& total, const LoadResult& result) {
  std::string text;
  for (const auto& [what, times] : total.failures)
    text += fmt::format("failed {}x: {}\n", times, what);
  const Duration lag = result.lag.quantile(0.99);
  text += fmt::format("sent {} requests over {} connections; sends were late by {:.3f} ms at p99\n",
                      result.sent, result.connections, lag.millis());
  if (lag > kLateSends) {
    text += "the generator did not keep up: give it a core of its own, or a lower rate\n";
  }
  return text;
}

}  // namespace

std::string report_json(const LoadSpec& spec, const LoadResult& result) {
  const double seconds = spec.duration.seconds();
  Json json;
  json["url"] = spec.address;
  json["protocol"] = spec.protocol == Protocol::kHttp ? "http" : "grpc";
  json["seed"] = spec.seed;
  json["duration_s"] = seconds;
  json["sent"] = result.sent;
  json["connections"] = result.connections;
  json["lag_p50_ms"] = quantile(result.lag, 0.5);
  json["lag_p99_ms"] = quantile(result.lag, 0.99);
  json.update(account_json(total_of(result), seconds));
  json["services"] = Json::array();
  for (size_t i = 0; i < result.services.size(); ++i) {
    Json service = {{"name", spec.services[i].name}};
    service.update(account_json(result.services[i], seconds));
    json["services"].push_back(std::move(service));
  }
  return write_json(json);
}

std::string report_table(const LoadSpec& spec, const LoadResult& result) {
  const double seconds = spec.duration.seconds();
  std::string text = fmt::format(fmt::runtime(kRow), "service", "offered/s", "on time/s", "share",
                                 "late", "deadline", "queue", "failed", "lost", "p50 ms", "p90 ms",
                                 "p99 ms", "batch", "accuracy");
  for (size_t i = 0; i < result.services.size(); ++i) {
    text += row(spec.services[i].name, result.services[i], seconds);
  }
  const Account total = total_of(result);
  if (result.services.size() > 1) text += row("all", total, seconds);
  text += remarks(total, result);
  const auto is_judged = [](const ServiceLoad& service) { return service.slo.has_value(); };
  if (!std::all_of(spec.services.begin(), spec.services.end(), is_judged)) {
    text +=
        "without an SLO every answer counts as on time: NAME:RATE::SLO_MS gives one, and "
        "--timeout-ms\n"
        "also tells the server\n";
  }
  return text;
}

}  // namespace fermata::load
