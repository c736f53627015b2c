#include "serve/live/live.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "serve/http/http_front_end.h"
#include "serve/json/json_text.h"
#include "tune/scenario.h"

namespace fermata::serve {
namespace {

constexpr std::chrono::milliseconds kTick(250);
constexpr int kTicksASecond = 4, kNice = 10;
constexpr Duration kShortestRecord = Duration::seconds(1);
constexpr size_t kMostWaitingShown = 256, kMostLogged = 50;
constexpr size_t kBatchesAtFirst = 128;  // about what the picture of a few workers shows
constexpr size_t kHistoryBytes = size_t{16} << 20;
constexpr double kMebibyte = 1 << 20;

double memory_of_process_mb() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / kMebibyte;
}

std::string event_text(std::string_view event, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", event, data);
}

}  // namespace

// One who listens, from the connection's side.
class Live::Listener final : public EventListener {
 public:
  explicit Listener(Live& live) : live_(live) {}
  void opened(std::shared_ptr<EventStream> stream) override {
    stream_ = stream.get();
    const std::lock_guard lock(live_.mutex_);
    live_.waiting_.push_back(std::move(stream));
    live_.changed_.notify_all();
  }
  void closed() override {
    const std::lock_guard lock(live_.mutex_);
    const auto own = [this](const auto& stream) { return stream.get() == stream_; };
    std::erase_if(live_.waiting_, own);
    std::erase_if(live_.listening_, own);
  }
  ~Listener() override { live_.listeners_.fetch_sub(1); }

 private:
  Live& live_;
  EventStream* stream_ = nullptr;
};

Live::Live(engine::Engine& engine, const engine::EngineOptions& options, tune::Recorder* recorder,
           const tune::ServedTuner& tuner, const std::string& record_file)
    : engine_(engine),
      options_(options),
      recorder_(recorder),
      tuner_(tuner),
      calls_(engine, options_, recorder, tuner),
      written_(engine.now()),
      history_(kHistoryBytes) {
  if (!record_file.empty() && recorder != nullptr) {
    record_file_ = std::make_unique<tune::RecordFile>(record_file);
  }
  tell_of_log([this](const LogLine& line) { log(line); });
  thread_ = std::thread([this] { run(); });
}

Live::~Live() { finish(); }

void Live::finish() {
  if (!thread_.joinable()) return;
  tell_of_log(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    waiting_.clear();
    listening_.clear();
  }
  changed_.notify_all();
  thread_.join();
  calls_.finish();
  write_record();
}

// Each request is in one recording, or in none where it was under way at its end.
void Live::write_record() {
  const Time now = engine_.now();
  if (record_file_ == nullptr || now - written_ < kShortestRecord) return;
  recorder_->collect();
  const engine::EngineSnapshot snapshot = engine_.snapshot();
  const Json document =
      tune::scenario_document(recorder_->copy(now - written_, now),
                              {tuner_.followed(), *engine_.catalog(), snapshot.workers});
  written_ = now;
  if (document["recorded"]["requests"] == 0) return;
  const absl::Status written = record_file_->append(document);
  if (!written.ok()) spdlog::error("the recording is not kept: {}", message(written));
}

void Live::request(HttpExchange exchange) {
  std::string_view path = exchange.target();
  path = path.substr(0, path.find('?'));
  if (path.ends_with("/events")) {
    if (listeners_.fetch_add(1) >= kMostListeners) {
      listeners_.fetch_sub(1);
      return exchange.respond(error_response(error(
          absl::StatusCode::kUnavailable,
          "{} pages listen already; close one of them and load this one again", kMostListeners)));
    }
    return exchange.stream_events(std::make_shared<Listener>(*this));
  }
  calls_.request(std::move(exchange));
}

void Live::run() {
  pthread_setname_np(pthread_self(), "live page");
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread, on Linux
  auto due = std::chrono::steady_clock::now();
  second();
  for (int tick = 1;; ++tick) {
    // A tick that came late moves the others: seconds that catch up would have nothing to say.
    due = std::max(due + kTick, std::chrono::steady_clock::now());
    std::unique_lock lock(mutex_);
    while (!stop_ && std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due, [this] { return stop_ || !waiting_.empty(); });
      if (stop_ || waiting_.empty()) continue;
      lock.unlock();
      greet();
      lock.lock();
    }
    if (stop_) return;
    const bool heard = !listening_.empty();
    lock.unlock();
    if (heard) timeline();
    if (heard) tell_about_workers();
    if (tick % kTicksASecond != 0) continue;
    second();
    if (heard) ask_about_workers();
    if (recorder_ != nullptr && engine_.now() - written_ >= recorder_->options().keep) {
      write_record();
    }
  }
}

std::set<std::string> Live::called() const {
  std::set<std::string> names;
  for (const tune::ServiceFacts& each : services_) names.insert(each.name);
  return names;
}

void Live::second() {
  const engine::EngineSnapshot snapshot = engine_.snapshot();
  auto services = tune::facts_of(options_, *engine_.catalog());
  if (std::exchange(services_, services) != services_) {
    broadcast("services", live_text({{"services", json_of(services_)}}));
  }
  Json unserved = json_of(engine_.unserved());
  if (std::exchange(unserved_, unserved) != unserved_) {
    broadcast("unserved", live_text({{"unserved", unserved_}}));
  }
  Json workers = workers_json(snapshot);
  if (std::exchange(workers_, workers) != workers_) {
    broadcast("workers", live_text({{"workers", workers_}}));
  }
  Json tuning = tune::write_tuning(tuner_.status());
  if (std::exchange(tuning_, tuning) != tuning_) {
    broadcast("tuning", live_text({{"tuning", tuning_}}));
  }
  std::map<std::string, tune::Answers> answers;
  if (recorder_ != nullptr) {
    answers = recorder_->take_answers();
    for (auto& [service, own] : answers) {
      const auto facts = std::find_if(
          services_.begin(), services_.end(),
          [&, name = std::string_view(service)](const auto& each) { return each.name == name; });
      for (const auto& [who, count] : own.by) {
        const auto& [model, subset] = who;
        std::string name = recorder_->model_name(model);
        if (subset != 0 && facts != services_.end()) {
          name = tune::subset_name(facts->members, subset);
        }
        if (name != service && !name.empty()) own.by_name[name] += count;
      }
    }
  }
  const tune::Period* period =
      history_.add(snapshot, called(), std::move(answers), memory_of_process_mb());
  if (period != nullptr) broadcast("second", live_text(json_of(*period)));
}

// The page says whether more workers would help by the same simulations as a what-if.
void Live::ask_about_workers() {
  if (recorder_ == nullptr || asked_about_workers_) return;
  if (!loss_watch_.due(history_.seconds(), engine_.now())) return;
  asked_about_workers_ = true;
  calls_.more_workers(tune::LossWatch::span(history_.seconds()),
                      [this](absl::StatusOr<Json> answer, Duration took) {
                        const std::lock_guard lock(mutex_);
                        about_workers_ = AboutWorkers{std::move(answer), took};
                      });
}

void Live::tell_about_workers() {
  std::optional<AboutWorkers> told;
  {
    const std::lock_guard lock(mutex_);
    told = std::exchange(about_workers_, std::nullopt);
  }
  if (!told) return;
  asked_about_workers_ = false;
  loss_watch_.answered(engine_.now(), told->took);
  if (!told->answer.ok()) return;  // nothing that can be replayed
  more_workers_ = *std::move(told->answer);
  broadcast("more_workers", live_text(more_workers_));
}

void Live::timeline() {
  std::vector<std::pair<std::string, std::string>> logged;
  {
    const std::lock_guard lock(mutex_);
    logged.swap(logged_);
  }
  for (const auto& [event, data] : logged) broadcast(event, data);
  if (recorder_ == nullptr) return;
  recorder_->collect();
  LiveNames names(*recorder_);
  broadcast("timeline",
            timeline_json(recorder_->take_changes(kMostWaitingShown), names, engine_.now()));
}

std::string Live::hello() const {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto epoch = std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
  Json seconds = Json::array(), coarse = Json::array();
  for (const tune::Period& each : history_.seconds()) seconds.push_back(json_of(each));
  for (const tune::Period& each : history_.coarse()) coarse.push_back(json_of(each));
  Json recorder = nullptr;
  if (recorder_ != nullptr) {
    recorder = {{"seconds", recorder_->options().keep.seconds()},
                {"memory_mb", recorder_->options().memory_mb},
                {"lost", recorder_->lost()}};
  }
  std::string text = live_text(
      {{"server", {{"name", "fermata"}, {"version", FERMATA_VERSION}}},
       {"epoch_ms", epoch},
       {"now_us", engine_.now().nanos() / 1000},
       {"policy", options_.policy},
       {"recorder", std::move(recorder)},
       {"schedulers", tune::schedulers_for(options_)},
       {"workers", workers_},
       {"tuning", tuning_},
       {"more_workers", more_workers_},
       {"services", json_of(services_)},
       {"unserved", unserved_},
       {"history",
        {{"step_s", 1},
         {"seconds", std::move(seconds)},
         {"coarse",
          {{"step_s", tune::History::kCoarseSeconds}, {"seconds", std::move(coarse)}}}}}});
  if (recorder_ == nullptr) return text;
  LiveNames names(*recorder_);
  text.pop_back();
  return text + ",\"timeline\":" +
         timeline_json(recorder_->latest(kBatchesAtFirst, kMostWaitingShown), names,
                       engine_.now()) +
         "}";
}

// Changes are kept from before the hello on, which has what was before: no batch is left out.
void Live::greet() {
  if (recorder_ != nullptr) {
    const std::lock_guard lock(mutex_);
    if (listening_.empty()) recorder_->watch(true);
  }
  if (recorder_ != nullptr) recorder_->collect();
  const auto text = std::make_shared<const std::string>(event_text("hello", hello()));
  const std::lock_guard lock(mutex_);
  for (const auto& [event, data] : std::exchange(logged_, {})) {  // those that come get them below
    const auto line = std::make_shared<const std::string>(event_text(event, data));
    for (const auto& stream : listening_) stream->send(line);
  }
  for (auto& stream : waiting_) {
    stream->send(text);
    for (const std::string& data : last_logged_) {
      stream->send(std::make_shared<const std::string>(event_text("log", data)));
    }
    listening_.push_back(std::move(stream));
  }
  waiting_.clear();
}

void Live::broadcast(std::string_view event, const std::string& data) {
  const std::lock_guard lock(mutex_);
  if (listening_.empty()) {
    if (recorder_ != nullptr) recorder_->watch(false);
    return;
  }
  const auto text = std::make_shared<const std::string>(event_text(event, data));
  for (const auto& stream : listening_) stream->send(text);
}

void Live::log(const LogLine& line) {
  std::string data =
      live_text({{"at_us", line.at.nanos() / 1000}, {"level", line.level}, {"text", line.text}});
  const std::lock_guard lock(mutex_);
  if (last_logged_.size() == kMostLogged) last_logged_.pop_front();
  last_logged_.push_back(data);
  if (listening_.empty()) return;
  if (logged_.size() == kMostLogged) logged_.erase(logged_.begin());
  logged_.emplace_back("log", std::move(data));
}

}  // namespace fermata::serve
