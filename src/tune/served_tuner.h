#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/options.h"
#include "tune/recorder.h"
#include "tune/rule_tuner.h"

namespace fermata::tune {

// How a server's rules are chosen, for those who look.
struct TuningStatus {
  struct Row {
    std::string_view name;
    std::optional<double> loss;  // of the worst service's requests; none: not known of this load
  };
  std::string fixed;  // not empty: why the rules stay as they are
  std::string_view rules;
  Time since;  // they are active
  uint64_t moves = 0, trials = 0;
  std::vector<Row> rows;
};
Json write_tuning(const TuningStatus& status);  // as GET /v2/live/decisions has it

// Tries a server's rules on what it recorded lately, and moves it to the best. The owner's thread
// calls look(); the rest is thread-safe.
class ServedTuner {
 public:
  // Of one core, what trials take; the looks between them take less than as much again.
  static constexpr double kMostWork = 0.02;

  // All outlive it. `worked`: how long the calling thread has worked so far. `on`: else it only
  // says that it is off.
  ServedTuner(engine::Engine& engine, const engine::EngineOptions& options, Recorder* recorder,
              std::function<Duration()> worked, bool on = true);

  // About once a second. Blocks while it tries. What to say of a move, if there was one.
  std::optional<std::string> look();
  TuningStatus status() const;
  // The server's options with the rules that the scheduler follows, for what replays it.
  engine::EngineOptions followed() const;

 private:
  void watch(Time now);
  absl::StatusOr<std::optional<size_t>> tune(Time now);
  absl::StatusOr<simulate::Scenario> scenario(const Stretch& stretch, Time now) const;
  std::string moved(size_t from, size_t to) const;
  void publish();

  engine::Engine& engine_;
  const engine::EngineOptions& options_;
  Recorder* const recorder_;
  const std::function<Duration()> worked_;
  const std::string fixed_;
  RuleTuner tuner_;
  Time watched_until_;
  double rate_ = 0;       // requests a second, lately
  Duration longest_slo_;  // of those

  mutable std::mutex mutex_;
  TuningStatus status_;
};

}  // namespace fermata::tune
