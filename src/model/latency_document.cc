#include "model/latency_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/status.h"

namespace fermata {
namespace {

LinearLatency read_linear(ObjectReader& form, Reader value) {
  LinearLatency m{form["alpha"].non_negative(), form["beta"].non_negative()};
  if (m.alpha_ms + m.beta_ms == 0) value.fail("alpha + beta above 0");
  return m;
}

QuadraticLatency read_quadratic(Reader value) {
  const auto terms = value.list();
  if (terms.size() != 3) {
    value.fail("three numbers [a, b, c] for a*b^2 + b*b + c");
    return {};
  }
  QuadraticLatency m{terms[0].number(), terms[1].number(), terms[2].number()};
  if (m.a + m.b + m.c <= 0) value.fail("a + b + c above 0");
  return m;
}

TableLatency read_table(Reader value) {
  TableLatency m;
  for (const auto& [name, time] : value.map()) {
    const uint32_t size = number_of(name).value_or(0);
    if (size < 1 || size > 1'000'000) time.fail("a batch size from 1 to 1000000 as its name");
    m.points_ms[size] = time.positive();
  }
  if (m.points_ms.empty()) value.fail("at least one batch size");
  return m;
}

bool is_one_latency(Reader value) {
  if (!value.is_object()) return true;  // read_latency says what is wrong with it
  for (const auto& [name, _] : value.map()) {
    if (name == "alpha" || name == "beta" || name == "quadratic" || name == "table") return true;
  }
  return false;
}

}  // namespace

std::vector<LatencyModel> read_latency_by_type(Reader value, std::span<const std::string> types) {
  if (is_one_latency(value)) return {read_latency(value)};
  std::vector<LatencyModel> latencies(types.size());
  std::vector<bool> named(types.size());
  for (const auto& [name, latency] : value.map()) {
    const auto type = std::find(types.begin(), types.end(), name);
    if (type == types.end()) {
      latency.fail(fmt::format("a type of the workers as its name, not '{}'", name));
      return latencies;
    }
    latencies[static_cast<size_t>(type - types.begin())] = read_latency(latency);
    named[static_cast<size_t>(type - types.begin())] = true;
  }
  for (size_t t = 0; t < types.size(); ++t) {
    if (!named[t]) value.fail(fmt::format("a latency for worker type '{}' too", types[t]));
  }
  return latencies;
}

LatencyModel read_latency(Reader value) {
  if (!value.is_object()) {
    value.fail("a map with alpha and beta, quadratic, or table");
    return LinearLatency{};
  }
  ObjectReader form = value.object();
  if (const Reader table = form["table"]; table.present()) return read_table(table);
  if (const Reader terms = form["quadratic"]; terms.present()) return read_quadratic(terms);
  return read_linear(form, value);
}

void check_latencies(Reader value, std::span<const LatencyModel> latencies, uint32_t max_batch) {
  for (const LatencyModel& latency : latencies) {
    if (value.failed()) break;
    if (auto table = LatencyTable::make(latency, max_batch); !table.ok()) {
      value.fail(fmt::format("latencies of batches ({})", message(table.status())));
    }
  }
}

Json write_latency(const LatencyModel& model) {
  struct Write {
    Json operator()(const LinearLatency& m) { return {{"alpha", m.alpha_ms}, {"beta", m.beta_ms}}; }
    Json operator()(const QuadraticLatency& m) { return {{"quadratic", {m.a, m.b, m.c}}}; }
    Json operator()(const TableLatency& m) {
      Json points = Json::object();
      for (const auto& [size, ms] : m.points_ms) points[std::to_string(size)] = ms;
      return {{"table", points}};
    }
  };
  return std::visit(Write(), model);
}

}  // namespace fermata
