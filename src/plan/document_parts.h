#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "base/document.h"
#include "base/time.h"

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

}  // namespace fermata::plan
