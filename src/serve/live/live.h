#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "serve/http/event_stream.h"
#include "serve/http/http_server.h"
#include "serve/live/live_calls.h"
#include "serve/live/live_json.h"
#include "serve/log.h"
#include "tune/history.h"
#include "tune/loss_watch.h"
#include "tune/record_file.h"
#include "tune/recorder.h"

namespace fermata::serve {

// What the live page shows: counts of every second, pushed to whoever listens, and answers to its
// questions (docs/live.md). Works on threads of its own, of low priority.
class Live : public HttpHandler {
 public:
  static constexpr size_t kMostListeners = 16;

  // All outlive it; `recorder` null: nothing is recorded. `record_file`: what was recorded goes
  // there too, as often as the recorder is full; empty: nowhere.
  Live(engine::Engine& engine, const engine::EngineOptions& options, tune::Recorder* recorder,
       const tune::ServedTuner& tuner, const std::string& record_file = {});
  ~Live() override;

  // A call under /v2/live, which find_route() knows.
  void request(HttpExchange exchange) override;
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}
  // What the log says that a person should read goes to whoever listens, the last few lines to
  // who comes later. Any thread.
  void log(const LogLine& line);
  // No exchange is answered any more.
  void finish();

 private:
  class Listener;

  void run();
  void second();
  void timeline();
  void greet();
  void write_record();
  void ask_about_workers();
  void tell_about_workers();
  std::string hello() const;
  void broadcast(std::string_view event, const std::string& data);
  std::set<std::string> called() const;

  engine::Engine& engine_;
  const engine::EngineOptions options_;
  tune::Recorder* const recorder_;
  const tune::ServedTuner& tuner_;
  LiveCalls calls_;
  std::unique_ptr<tune::RecordFile> record_file_;
  Time written_;  // what came before it
  // Of the thread:
  tune::History history_;
  std::vector<tune::ServiceFacts> services_;
  Json unserved_ = Json::array(), workers_, tuning_, more_workers_;
  tune::LossWatch loss_watch_;
  bool asked_about_workers_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<EventStream>> waiting_, listening_;
  std::vector<std::pair<std::string, std::string>> logged_;  // event, data; not told yet
  std::deque<std::string> last_logged_;                      // for who begins to listen
  std::atomic<size_t> listeners_{0};
  struct AboutWorkers {
    absl::StatusOr<Json> answer;
    Duration took;
  };
  std::optional<AboutWorkers> about_workers_;  // not told yet
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace fermata::serve
