#include "tune/served_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "simulate/scenario_document.h"
#include "tune/scenario.h"

namespace fermata::tune {
namespace {

constexpr Duration kSettled = Duration::millis(100);  // what is older has been recorded
constexpr Duration kLookAgain = Duration::seconds(4);

// Why the rules of such a server are not for trials to choose; empty: they are.
std::string why_fixed(const engine::EngineOptions& options, const Recorder* recorder, bool on) {
  if (!on) return "scheduler_tuning is off";
  if (recorder == nullptr) return "nothing is recorded";
  if (options.policy != rule_rows().front().name) {
    return fmt::format("the scheduler is {}", options.policy);
  }
  if (options.groups.rules) return "scheduler_rules says them";
  if (options.workers.residency != engine::Residency::kPlaced) {
    return "models are loaded when they are needed";
  }
  for (const engine::ServiceOptions& service : options.services) {
    if (service.variants) return fmt::format("'{}' has variants", service.name);
    if (service.ensemble) return fmt::format("'{}' is an ensemble", service.name);
  }
  return {};
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

Json write_tuning(const TuningStatus& status) {
  Json rows = Json::array();
  for (const TuningStatus::Row& row : status.rows) {
    rows.push_back({{"rules", row.name}, {"loss", or_null(row.loss)}});
  }
  return {{"rules", status.rules},
          {"since_us", status.since.nanos() / 1000},
          {"fixed", status.fixed.empty() ? Json(nullptr) : Json(status.fixed)},
          {"moves", status.moves},
          {"trials", status.trials},
          {"tried", std::move(rows)}};
}

ServedTuner::ServedTuner(engine::Engine& engine, const engine::EngineOptions& options,
                         Recorder* recorder, std::function<Duration()> worked, bool on)
    : engine_(engine),
      options_(options),
      recorder_(recorder),
      worked_(std::move(worked)),
      fixed_(why_fixed(options, recorder, on)),
      tuner_(engine.now()),
      watched_until_(engine.now()) {
  publish();
}

std::optional<std::string> ServedTuner::look() {
  if (!fixed_.empty()) return std::nullopt;
  const Time now = engine_.now();
  const size_t before = tuner_.choice().active();
  watch(now);
  if (!tuner_.due(now)) return std::nullopt;
  const Duration worked = worked_();
  const auto row = tune(now);
  const Duration cost = worked_() - worked;
  tuner_.put_off(now + (row.ok() ? cost.scaled(1 / kMostWork) : kLookAgain));
  publish();
  if (!row.ok() || !*row) return std::nullopt;
  engine_.set_rules(rule_rows()[**row].rules);
  return moved(before, **row);
}

// Those of clients since the last look.
void ServedTuner::watch(Time now) {
  const Time from = watched_until_;
  watched_until_ = std::max(from, now - kSettled);
  recorder_->collect();
  const Recording recording = recorder_->copy(now - from, now);
  uint64_t count = 0;
  longest_slo_ = Duration();
  for (const RecordedRequest& request : recording.requests) {
    if (!request.parent.is_none() || request.submitted < from ||
        request.submitted >= watched_until_) {
      continue;
    }
    const bool limited = !request.deadline.is_infinite();
    const Duration slo = limited ? request.deadline - request.submitted : Duration::infinite();
    if (limited) longest_slo_ = std::max(longest_slo_, slo);
    tuner_.came(request.service, request.submitted, slo);
    ++count;
  }
  const double seconds = (watched_until_ - from).seconds();
  if (seconds > 0) rate_ = static_cast<double>(count) / seconds;
}

absl::StatusOr<std::optional<size_t>> ServedTuner::tune(Time now) {
  if (rate_ == 0 || longest_slo_ <= Duration()) return not_found("nothing has a deadline");
  const Duration most =
      std::min(RuleTuner::kLongest, Duration::from_seconds(RuleTuner::kMostRequests / rate_));
  const Stretch stretch = tuner_.stretch(now - most, longest_slo_, now);
  ASSIGN_OR_RETURN(const simulate::Scenario replayed, scenario(stretch, now));
  return tuner_.try_on(replayed, stretch, now);
}

absl::StatusOr<simulate::Scenario> ServedTuner::scenario(const Stretch& stretch, Time now) const {
  Recording recording = recorder_->copy(now - stretch.from, now);
  if (const size_t n = recording.requests.size(); n > RuleTuner::kMostRequests) {
    const Time newest = recording.requests[n - RuleTuner::kMostRequests].submitted;
    recording.from = std::max(recording.from, newest);
  }
  const Duration warmup = std::max(stretch.measured - recording.from, Duration());
  const Duration duration = stretch.until - recording.from - warmup;
  if (duration <= Duration()) return not_found("what is recorded began just now");
  const engine::EngineSnapshot snapshot = engine_.snapshot();
  if (snapshot.subclusters.size() > 1) return unimplemented("a pool in parts");
  const Json document =
      scenario_document(recording, {options_, *engine_.catalog(), snapshot.workers});
  if (document["recorded"]["requests"] == 0) return not_found("no request was recorded");
  ASSIGN_OR_RETURN(Document text, Document::parse(document.dump(), Document::Format::kJson));
  ASSIGN_OR_RETURN(simulate::Scenario scenario, text.read(simulate::read_scenario));
  scenario.warmup = warmup;
  scenario.duration = duration;
  return scenario;
}

std::string ServedTuner::moved(size_t from, size_t to) const {
  const RuleChoice& choice = tuner_.choice();
  return fmt::format(
      "the scheduler follows the rules {} from now on: of the last requests of its worst service "
      "they would have lost {:.2f} %, {} {:.2f} %",
      rule_rows()[to].name, 100 * choice.loss(to).value_or(0), rule_rows()[from].name,
      100 * choice.loss(from).value_or(0));
}

engine::EngineOptions ServedTuner::followed() const {
  const TuningStatus tuning = status();
  engine::EngineOptions options = options_;
  const auto row = tuning.fixed.empty() ? find_rule_row(tuning.rules) : std::nullopt;
  if (row && *row > 0) options.groups.rules = rule_rows()[*row].rules;
  return options;
}

TuningStatus ServedTuner::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void ServedTuner::publish() {
  const RuleChoice& choice = tuner_.choice();
  TuningStatus status{.fixed = fixed_,
                      .rules = fixed_.empty() ? rule_rows()[choice.active()].name
                                              : std::string_view(options_.policy),
                      .since = choice.active_since(),
                      .moves = choice.moves(),
                      .trials = choice.trials()};
  for (size_t row = 0; fixed_.empty() && row < rule_rows().size(); ++row) {
    status.rows.push_back({rule_rows()[row].name, choice.loss(row)});
  }
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
}

}  // namespace fermata::tune
