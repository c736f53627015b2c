#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/document.h"
#include "base/time.h"
#include "simulate/scenario.h"

namespace fermata::tune {

// What would be different.
struct Case {
  std::optional<std::string> scheduler;
  std::optional<uint32_t> workers;      // of the first type
  double load = 1;                      // times as many requests
  std::map<std::string, Duration> slo;  // by service
};
inline constexpr double kLeastLoad = 0.01, kMostLoad = 20;
inline constexpr size_t kMostCases = 16;

// {"seconds", "on_time", "scheduler", "workers", "load", "slo_ms": {"NAME": ...}, "cases": [the
// same but seconds, on_time and cases]}; null as if it were absent. What stands beside `cases` is a
// case of its own.
struct Question {
  std::optional<Duration> last;   // how much of the recording
  std::optional<double> on_time;  // with how many workers would this share have been on time?
  std::vector<Case> cases;
};
Question read_question(Reader value);
Json write_case(const Case& given);

// The scenario of a recording as it would be: at a higher load the recorded time is laid upon
// itself, begun elsewhere, as often as that takes; requests beyond it, or at a lower load, are
// drawn by the scenario's seed. INVALID_ARGUMENT where the scenario has no such service.
absl::StatusOr<simulate::Scenario> apply(const Case& given, simulate::Scenario scenario);

// Runs it. As a recording's `recorded` has it: requests, seconds, the share on time, accuracy,
// busy, and the services.
absl::StatusOr<Json> replay(const simulate::Scenario& scenario);

// One worker more, and two, of the first type of a scenario_document().
std::vector<Case> more_workers(const Json& document);

// `document` as scenario_document() makes it: what happened, the replay of just that, and of each
// case, and how far the replay's share on time is from what happened. With `on_time` also `needed`:
// the fewest workers with which that share was on time, null where as many as were tried had not
// been enough, at most kMostTimes as many as there are; the share that they had; and whether fewer
// have been ruled out. So many are tried that at most kMostReplayed requests are replayed for it,
// but kLeastTried always.
inline constexpr uint32_t kMostTimes = 16, kLeastTried = 3;
inline constexpr uint64_t kMostReplayed = 1'000'000;
absl::StatusOr<Json> what_if(const Json& document, const std::vector<Case>& cases,
                             std::optional<double> on_time = {});

}  // namespace fermata::tune
