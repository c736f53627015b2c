#include "load/spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "simulate/arrivals_document.h"

namespace fermata::load {
namespace {

constexpr double kLongestMs = 24 * 3600 * 1e3;
constexpr double kHighestRate = 1e7;

std::optional<double> parse_positive(std::string_view text, double highest) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, problem] = std::from_chars(text.data(), last, value);
  if (problem != std::errc() || end != last || !(value > 0 && value <= highest)) return {};
  return value;
}

// Names go into paths as they are.
bool is_plain(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("/?#%\"\\").find(c) == std::string_view::npos;
  });
}

std::string read_name(Reader name) {
  std::string text = name.string();
  if (!is_plain(text)) name.fail("a service's name without spaces and slashes");
  return text;
}

std::optional<Duration> read_millis(Reader value) {
  if (!value.present()) return std::nullopt;
  const double ms = value.between(0, kLongestMs);
  if (ms <= 0) value.fail("milliseconds above 0");
  return Duration::from_millis(ms);
}

Duration read_seconds(Reader value, Duration fallback) {
  return Duration::from_seconds(value.between(0, kLongestMs / 1e3, fallback.seconds()));
}

ServiceLoad read_service(Reader service) {
  ObjectReader fields = service.object();
  ServiceLoad load;
  load.name = read_name(fields["name"]);
  if (const Reader version = fields["version"]; version.present()) {
    load.version = read_name(version);
  }
  load.rate_rps = fields["rate_rps"].between(0, kHighestRate, 0.0);
  if (const Reader arrival = fields["arrival"]; arrival.present()) {
    load.arrivals = simulate::read_arrivals(arrival);
  }
  load.inputs = fields["inputs"].string("");
  load.slo = read_millis(fields["slo_ms"]);
  load.timeout = read_millis(fields["timeout_ms"]);
  return load;
}

}  // namespace

absl::StatusOr<ServiceLoad> parse_service(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return invalid("'{}': {}, expected NAME:RATE[:INPUTS][:SLO_MS]", text, what);
  };
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const size_t colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() < 2 || parts.size() > 4) return wrong(fmt::format("{} parts", parts.size()));
  ServiceLoad load;
  load.name = std::string(parts[0]);
  if (!is_plain(load.name)) return wrong("no name");
  const auto rate = parse_positive(parts[1], kHighestRate);
  if (!rate) return wrong(fmt::format("the rate is '{}'", parts[1]));
  load.rate_rps = *rate;
  if (parts.size() > 2) load.inputs = std::string(parts[2]);
  if (parts.size() > 3) {
    const auto slo_ms = parse_positive(parts[3], kLongestMs);
    if (!slo_ms) return wrong(fmt::format("the SLO is '{}'", parts[3]));
    load.slo = Duration::from_millis(*slo_ms);
  }
  return load;
}

absl::StatusOr<simulate::ArrivalProcess> parse_arrivals(std::string_view text) {
  if (text == "poisson") return simulate::PoissonArrivals{};
  if (text == "uniform") return simulate::UniformArrivals{};
  if (text.starts_with("gamma:")) {
    const auto shape = parse_positive(text.substr(6), simulate::kMostShape);
    if (shape && *shape >= simulate::kLeastShape) return simulate::GammaArrivals{*shape};
    return invalid("arrivals '{}', expected gamma:SHAPE with a shape from {} to {}", text,
                   simulate::kLeastShape, simulate::kMostShape);
  }
  if (text.starts_with("trace:")) return simulate::load_trace(std::string(text.substr(6)));
  return invalid("arrivals '{}', expected poisson, uniform, gamma:SHAPE or trace:FILE", text);
}

Protocol read_protocol(Reader value) {
  static const std::vector<std::string_view> kNames = {"grpc", "http"};
  return value.choice(kNames, 0) == 0 ? Protocol::kGrpc : Protocol::kHttp;
}

LoadSpec read_spec(Reader root) {
  ObjectReader fields = root.object();
  LoadSpec spec;
  spec.protocol = read_protocol(fields["protocol"]);
  spec.address = fields["url"].string("");
  spec.warmup = read_seconds(fields["warmup_s"], spec.warmup);
  spec.duration = read_seconds(fields["duration_s"], spec.duration);
  spec.drain = read_seconds(fields["drain_s"], spec.drain);
  spec.seed = static_cast<uint64_t>(fields["seed"].integer(0, int64_t{1} << 53, spec.seed));
  spec.explain = fields["explain"].boolean(false);
  if (const Reader arrival = fields["arrival"]; arrival.present()) {
    spec.arrivals = simulate::read_arrivals(arrival);
  }
  for (const Reader& service : fields["services"].list(1)) {
    spec.services.push_back(read_service(service));
  }
  return spec;
}

absl::Status complete(LoadSpec& spec) {
  if (spec.address.empty()) {
    spec.address = spec.protocol == Protocol::kHttp ? "localhost:8000" : "localhost:8001";
  }
  if (spec.duration <= Duration()) return invalid("the duration is 0 s, expected more");
  if (spec.services.empty()) return invalid("no services, expected at least one");
  for (ServiceLoad& service : spec.services) {
    if (!service.arrivals) service.arrivals = spec.arrivals;
    if (!service.slo) service.slo = service.timeout;
    if (service.rate_rps > 0) continue;
    const auto* trace = std::get_if<simulate::TraceArrivals>(&*service.arrivals);
    if (trace == nullptr) return invalid("service {} has no rate, expected rate_rps", service.name);
    service.rate_rps = simulate::mean_rate(*trace);
  }
  return absl::OkStatus();
}

}  // namespace fermata::load
