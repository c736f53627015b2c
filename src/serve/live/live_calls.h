#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/document.h"
#include "base/time.h"
#include "engine/engine.h"
#include "serve/http/http_server.h"
#include "serve/net/background.h"
#include "tune/recorder.h"
#include "tune/served_tuner.h"

namespace fermata::serve {

// Answers the questions under /v2/live, all but the events: single requests, decisions, what-ifs,
// what was recorded. One after the other, on a thread of a lower priority, from a copy of the
// recording; what-ifs, which take longer, on another.
class LiveCalls {
 public:
  static constexpr size_t kMostWaiting = 8;  // one more is rejected

  // All outlive it; `recorder` null: nothing is recorded.
  LiveCalls(engine::Engine& engine, const engine::EngineOptions& options, tune::Recorder* recorder,
            const tune::ServedTuner& tuner)
      : engine_(engine), options_(options), recorder_(recorder), tuner_(tuner) {}

  void request(HttpExchange exchange);
  // What one and two more workers would have brought in the last `most`: a what-if, told on the
  // thread of the questions with how long it took. Only where something is recorded.
  using Told = absl::AnyInvocable<void(absl::StatusOr<Json>, Duration took)>;
  void more_workers(Duration most, Told tell);
  // Waits for the questions that are being answered.
  void finish() {
    background_.finish();
    simulations_.finish();
  }

 private:
  absl::StatusOr<std::string> answer(std::string_view target, std::string_view body) const;
  absl::StatusOr<std::string> requests(std::string_view query) const;
  absl::StatusOr<std::string> one_request(std::string_view id) const;
  absl::StatusOr<std::string> what_if(std::string_view body) const;
  absl::StatusOr<std::string> decision(std::string_view id) const;
  tune::Recording recording(Duration most) const;
  Json scenario(Duration most) const;

  engine::Engine& engine_;
  const engine::EngineOptions& options_;
  tune::Recorder* const recorder_;
  const tune::ServedTuner& tuner_;
  std::atomic<size_t> waiting_{0};
  Background background_{1}, simulations_{1};
};

}  // namespace fermata::serve
