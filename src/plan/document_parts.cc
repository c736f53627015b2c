#include "plan/document_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "model/latency_document.h"

namespace fermata::plan {
namespace {

constexpr int64_t kLargestBatch = 65'536;

Json write_table(const LatencyTable& latency) {
  Json points = Json::object();
  for (uint32_t b = 1; b <= latency.max_batch(); ++b) {
    points[std::to_string(b)] = millis(latency(b));
  }
  return {{"table", std::move(points)}};
}

}  // namespace

std::vector<LatencyByType::Table> read_tables(Reader latency_ms, Reader max_batch,
                                              std::span<const std::string> types) {
  std::vector<LatencyByType::Table> tables;
  const auto most = static_cast<uint32_t>(max_batch.integer(1, kLargestBatch, 256));
  for (const LatencyModel& model : read_latency_by_type(latency_ms, types)) {
    if (latency_ms.failed()) break;
    auto table = LatencyTable::make(model, most);
    if (!table.ok()) {
      latency_ms.fail(message(table.status()));
      break;
    }
    const LatencyTable& latency = **table;
    if (latency(1) <= Duration() || latency(latency.max_batch()).millis() > kLongestMs) {
      latency_ms.fail(fmt::format("latencies from 1e-6 to {} ms", kLongestMs));
      break;
    }
    tables.push_back(*std::move(table));
  }
  return tables;
}

void write_tables(std::span<const LatencyByType::Table> tables, std::span<const std::string> types,
                  const std::vector<bool>& used, Json& model) {
  std::vector<size_t> of;
  for (size_t t = 0; t < types.size(); ++t) {
    if (used[t] && (tables.size() > 1 || of.empty())) of.push_back(t);
  }
  const auto table = [&](size_t type) -> const LatencyTable& {
    return *tables[tables.size() == 1 ? 0 : type];
  };
  uint32_t max_batch = 1;
  for (const size_t type : of) max_batch = std::max(max_batch, table(type).max_batch());
  Json& out = model["latency_ms"];
  for (const size_t type : of) {
    if (of.size() == 1) {
      out = write_table(table(type));
    } else {
      out[types[type]] = write_table(table(type));
    }
  }
  model["max_batch"] = max_batch;
}

}  // namespace fermata::plan
