#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/document.h"
#include "base/time.h"
#include "model/latency_by_type.h"

namespace fermata::plan {

// What documents of groups and of ensembles have in common.
constexpr int64_t kMostSteps = 1'000'000'000'000;
constexpr double kLongestMs = 1e8;  // about a day, to load a model or to run a batch

using Names = absl::flat_hash_set<std::string>;

// A name that is not in `taken` yet, and is from now on.
inline std::string read_own_name(Reader value, Names& taken) {
  std::string name = value.string();
  if (!taken.insert(name).second) value.fail("a name of its own");
  return name;
}

// The double next to the whole nanoseconds: what is written reads back to the same.
inline double millis(Duration d) { return static_cast<double>(d.nanos()) / 1e6; }

// A model's `latency_ms`, alike on all types of workers or by type, for batches up to its
// `max_batch`: of one to 65536 items, 256 where it is missing.
std::vector<LatencyByType::Table> read_tables(Reader latency_ms, Reader max_batch,
                                              std::span<const std::string> types);
// Into `model`: the two fields, for those of the types that are used. Alike: one table.
void write_tables(std::span<const LatencyByType::Table> tables, std::span<const std::string> types,
                  const std::vector<bool>& used, Json& model);

}  // namespace fermata::plan
