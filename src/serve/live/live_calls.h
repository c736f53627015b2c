#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "serve/http/http_server.h"
#include "serve/net/background.h"
#include "tune/recorder.h"
#include "tune/served_tuner.h"

namespace fermata::serve {

// Answers the questions under /v2/live, all but the events: single requests, decisions, what-ifs,
// what was recorded. One after the other, on a thread of a lower priority, from a copy of the
// recording.
class LiveCalls {
 public:
  static constexpr size_t kMostWaiting = 8;  // one more is rejected

  // All outlive it; `recorder` null: nothing is recorded.
  LiveCalls(engine::Engine& engine, const engine::EngineOptions& options, tune::Recorder* recorder,
            const tune::ServedTuner& tuner)
      : engine_(engine), options_(options), recorder_(recorder), tuner_(tuner) {}

  void request(HttpExchange exchange);
  // Waits for the question that is being answered.
  void finish() { background_.finish(); }

 private:
  absl::StatusOr<std::string> answer(std::string_view target, std::string_view body) const;
  absl::StatusOr<std::string> requests(std::string_view query) const;
  absl::StatusOr<std::string> one_request(std::string_view id) const;
  absl::StatusOr<std::string> what_if(std::string_view body) const;
  absl::StatusOr<std::string> decision(std::string_view id) const;
  tune::Recording recording(Duration most) const;

  engine::Engine& engine_;
  const engine::EngineOptions& options_;
  tune::Recorder* const recorder_;
  const tune::ServedTuner& tuner_;
  std::atomic<size_t> waiting_{0};
  Background background_{1};
};

}  // namespace fermata::serve
