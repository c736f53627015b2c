#include "simulate/arrivals_document.h"

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace fermata::simulate {
namespace {

constexpr size_t kLongestTrace = 7 * 24 * 3600;
constexpr size_t kLargestFile = 64 << 20;
constexpr double kLargestCount = 1e9;
constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

absl::StatusOr<double> parse_count(std::string_view text, size_t line) {
  double count = 0;
  const char* const last = text.data() + text.size();
  const auto [end, problem] = std::from_chars(text.data(), last, count);
  if (problem != std::errc() || end != last || !(count >= 0 && count <= kLargestCount)) {
    return invalid("line {}: '{}', expected a count of requests from 0 to 1e9", line,
                   text.substr(0, 40));
  }
  return count;
}

TraceArrivals read_trace(Reader file) {
  const std::string name = file.string();
  if (name.empty()) return {};
  auto trace = load_trace(name);
  if (!trace.ok()) {
    file.fail(fmt::format("a trace ({})", message(trace.status())));
    return {};
  }
  return *std::move(trace);
}

constexpr double kLongestRecordingUs = 86'400e6, kLongestSloUs = 1e12;
constexpr int64_t kMostRecordedItems = 100'000;

// A list has one for each request, anything else is of all.
template <class T, class Read>
std::vector<T> read_each(Reader value, size_t requests, Read read) {
  if (!value.is_list()) return {read(value)};
  std::vector<T> all;
  all.reserve(requests);
  for (Reader entry : value.list()) all.push_back(read(entry));
  if (all.size() != requests && !value.failed()) {
    value.fail(fmt::format("{} entries, one for each request", requests));
  }
  return all;
}

RecordedArrivals read_recorded(ObjectReader& fields) {
  auto requests = std::make_shared<std::vector<RecordedArrivals::Request>>();
  for (Reader entry : fields["at_us"].list(1)) {
    const Duration at = Duration::from_millis(entry.between(0, kLongestRecordingUs) * 1e-3);
    if (!requests->empty() && at < requests->back().at) {
      entry.fail("times that do not go back");
      break;
    }
    requests->push_back({at});
  }
  const auto slos = read_each<std::optional<Duration>>(
      fields["slo_us"], requests->size(), [](Reader value) -> std::optional<Duration> {
        if (!value.present()) return std::nullopt;
        if (value.is_null()) return Duration::infinite();
        return Duration::from_millis(value.between(1, kLongestSloUs) * 1e-3);
      });
  const auto items = read_each<uint32_t>(fields["items"], requests->size(), [](Reader value) {
    return static_cast<uint32_t>(value.integer(1, kMostRecordedItems, 1));
  });
  for (size_t i = 0; i < requests->size(); ++i) {
    if (slos.size() != 1 && slos.size() <= i) break;
    if (items.size() != 1 && items.size() <= i) break;
    (*requests)[i].slo = slos[slos.size() == 1 ? 0 : i];
    (*requests)[i].items = items[items.size() == 1 ? 0 : i];
  }
  return {std::move(requests)};
}

ArrivalProcess read_process(Reader value, bool may_be_recorded) {
  static const std::vector<std::string_view> kPlain = {"poisson", "uniform"};
  static const std::vector<std::string_view> kDrawn = {"poisson", "uniform", "gamma", "trace"};
  static const std::vector<std::string_view> kAll = {"poisson", "uniform", "gamma", "trace",
                                                     "recorded"};
  size_t kind = 0;
  if (!value.is_object()) {
    kind = value.choice(kPlain);
  } else {
    ObjectReader fields = value.object();
    kind = fields["process"].choice(may_be_recorded ? kAll : kDrawn);
    if (kind == 2) return GammaArrivals{fields["shape"].between(kLeastShape, kMostShape)};
    if (kind == 4) return read_recorded(fields);
    if (kind == 3) return read_trace(fields["file"]);
  }
  if (kind == 1) return UniformArrivals{};
  return PoissonArrivals{};
}

}  // namespace

ArrivalProcess read_arrivals(Reader value) { return read_process(value, false); }
ArrivalProcess read_scenario_arrivals(Reader value) { return read_process(value, true); }

absl::StatusOr<TraceArrivals> parse_trace(std::string_view text) {
  auto counts = std::make_shared<std::vector<double>>();
  size_t number = 0, blank_since = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) {
      if (blank_since == 0) blank_since = number;
      continue;
    }
    if (blank_since != 0) return invalid("line {}: empty, expected a count", blank_since);
    if (counts->size() == kLongestTrace) return invalid("more than {} lines", kLongestTrace);
    ASSIGN_OR_RETURN(const double count, parse_count(line, number));
    counts->push_back(count);
  }
  TraceArrivals trace{std::move(counts)};
  if (mean_rate(trace) == 0) return invalid("no line with a count above 0");
  return trace;
}

absl::StatusOr<TraceArrivals> load_trace(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kLargestFile));
  auto trace = parse_trace(text);
  if (!trace.ok()) return invalid("{}: {}", file, message(trace.status()));
  return trace;
}

}  // namespace fermata::simulate
