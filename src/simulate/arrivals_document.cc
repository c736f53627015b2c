#include "simulate/arrivals_document.h"

#include <charconv>
#include <cmath>
#include <utility>

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

}  // namespace

ArrivalProcess read_arrivals(Reader value) {
  static const std::vector<std::string_view> kPlain = {"poisson", "uniform"};
  static const std::vector<std::string_view> kAll = {"poisson", "uniform", "gamma", "trace"};
  size_t kind = 0;
  if (!value.is_object()) {
    kind = value.choice(kPlain);
  } else {
    ObjectReader fields = value.object();
    kind = fields["process"].choice(kAll);
    if (kind == 2) return GammaArrivals{fields["shape"].between(kLeastShape, kMostShape)};
    if (kind == 3) return read_trace(fields["file"]);
  }
  if (kind == 1) return UniformArrivals{};
  return PoissonArrivals{};
}

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
