#include "tune/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/random.h"
#include "base/status.h"
#include "policy/scheduler.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"

namespace fermata::tune {
namespace {

using simulate::RecordedArrivals;

constexpr int64_t kMostWorkers = 10'000;
constexpr double kMostSloMs = 1e8, kLeastSeconds = 1, kMostSeconds = 3600;
constexpr uint64_t kDrawn = 0x7768617469660a;  // apart from the run's own streams

// Calls `change` with the name and the recorded arrivals of every source that has any.
template <class Change>
void for_each_recording(simulate::Scenario& scenario, Change change) {
  const auto visit = [&change](auto& sources) {
    for (auto& source : sources) {
      if (auto* own = std::get_if<RecordedArrivals>(&source.arrival)) change(source, *own);
    }
  };
  visit(scenario.models);
  visit(scenario.variants);
  visit(scenario.ensembles);
  visit(scenario.pipelines);
}

RecordedArrivals scaled(const RecordedArrivals& from, double load, Duration length, Random random) {
  auto requests = std::make_shared<std::vector<RecordedArrivals::Request>>();
  const auto whole = static_cast<int64_t>(load);
  const double rest = load - static_cast<double>(whole);
  const int64_t copies = whole + (rest > 0 ? 1 : 0);
  for (int64_t copy = 0; copy < copies; ++copy) {
    const Duration shift = Duration::nanos(length.nanos() / copies * copy);
    for (RecordedArrivals::Request request : *from.requests) {
      if (copy == whole && random.uniform() >= rest) continue;
      request.at += shift;
      if (request.at >= length) request.at -= length;
      requests->push_back(request);
    }
  }
  std::stable_sort(requests->begin(), requests->end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return {std::move(requests)};
}

Json or_null(double sum, uint64_t of) {
  return of == 0 ? Json(nullptr) : Json(sum / static_cast<double>(of));
}

struct Judged {
  double sum = 0;
  uint64_t of = 0;
};

Judged accuracy_of(const simulate::ModelResult& model) {
  if (model.variants) return {model.variants->correct, model.variants->answered};
  if (model.ensemble) {
    return {static_cast<double>(model.ensemble->correct), model.ensemble->answered};
  }
  return {};
}

}  // namespace

// Whether anything of it is given.
static bool read_case(ObjectReader& fields, Case& given) {
  static const std::vector<std::string_view> kSchedulers = policy::all_scheduler_names();
  if (Reader own = fields["scheduler"]; own.present() && !own.is_null()) {
    given.scheduler = kSchedulers[own.choice(kSchedulers)];
  }
  if (Reader own = fields["workers"]; own.present() && !own.is_null()) {
    given.workers = static_cast<uint32_t>(own.integer(1, kMostWorkers));
  }
  if (Reader own = fields["load"]; own.present() && !own.is_null()) {
    given.load = own.between(kLeastLoad, kMostLoad);
  }
  if (Reader own = fields["slo_ms"]; own.present() && !own.is_null()) {
    for (const auto& [name, slo] : own.map()) {
      given.slo[name] = Duration::from_millis(slo.between(1e-3, kMostSloMs));
    }
  }
  return given.scheduler || given.workers || given.load != 1 || !given.slo.empty();
}

Question read_question(Reader value) {
  Question question;
  ObjectReader fields = value.object();
  if (Reader own = fields["seconds"]; own.present() && !own.is_null()) {
    question.last = Duration::from_seconds(own.between(kLeastSeconds, kMostSeconds));
  }
  if (Reader own = fields["on_time"]; own.present() && !own.is_null()) {
    question.on_time = own.between(0.01, 1);
  }
  if (Case own; read_case(fields, own)) question.cases.push_back(std::move(own));
  Reader cases = fields["cases"];
  for (Reader entry : cases.optional_list()) {
    ObjectReader each = entry.object();
    read_case(each, question.cases.emplace_back());
  }
  if (question.cases.size() > kMostCases) cases.fail(fmt::format("at most {} cases", kMostCases));
  return question;
}

Json write_case(const Case& given) {
  Json slo = Json::object();
  for (const auto& [name, each] : given.slo) slo[name] = each.millis();
  return {{"scheduler", given.scheduler ? Json(*given.scheduler) : Json(nullptr)},
          {"workers", given.workers ? Json(*given.workers) : Json(nullptr)},
          {"load", given.load},
          {"slo_ms", std::move(slo)}};
}

absl::StatusOr<simulate::Scenario> apply(const Case& given, simulate::Scenario scenario) {
  if (given.scheduler) {
    scenario.scheduler = *given.scheduler;
    scenario.groups.rules.reset();
  }
  if (given.workers) {
    scenario.workers.front().count = *given.workers;
    scenario.workers.front().least.reset();
  }
  std::set<std::string> unknown;
  for (const auto& [name, slo] : given.slo) unknown.insert(name);
  const Duration length = scenario.warmup + scenario.duration;
  uint64_t stream = 0;
  for_each_recording(scenario, [&](auto& source, RecordedArrivals& arrivals) {
    if (const auto slo = given.slo.find(source.name); slo != given.slo.end()) {
      unknown.erase(source.name);
      source.slo = slo->second;
      if constexpr (requires { source.slo_most; }) source.slo_most = slo->second;
      auto changed = std::make_shared<std::vector<RecordedArrivals::Request>>(*arrivals.requests);
      for (RecordedArrivals::Request& request : *changed) request.slo = slo->second;
      arrivals.requests = std::move(changed);
    }
    // What came beyond the measured time belongs to no whole number of recordings.
    if (given.load != 1) {
      const Duration last = arrivals.requests->empty() ? Duration() : arrivals.requests->back().at;
      arrivals = scaled(arrivals, given.load, std::max(length, last + Duration::nanos(1)),
                        Random(scenario.seed ^ kDrawn, stream));
    }
    ++stream;
  });
  if (!unknown.empty()) {
    return invalid("slo_ms names '{}', expected a service that was called in the recorded time",
                   *unknown.begin());
  }
  return scenario;
}

absl::StatusOr<Json> replay(const simulate::Scenario& scenario) {
  ASSIGN_OR_RETURN(const simulate::Result result, simulate::run(scenario));
  uint64_t requests = 0, on_time = 0;
  Judged all;
  Json services = Json::object();
  for (const simulate::ModelResult& model : result.models) {
    if (model.offered == 0) continue;
    const Judged judged = accuracy_of(model);
    requests += model.offered;
    on_time += model.on_time;
    all.sum += judged.sum;
    all.of += judged.of;
    services[model.name] = {{"requests", model.offered},
                            {"on_time", or_null(static_cast<double>(model.on_time), model.offered)},
                            {"accuracy", or_null(judged.sum, judged.of)},
                            {"p99_ms", model.latency.quantile(0.99).millis()}};
  }
  return Json{{"requests", requests},
              {"seconds", result.duration.seconds()},
              {"on_time", or_null(static_cast<double>(on_time), requests)},
              {"accuracy", or_null(all.sum, all.of)},
              {"busy", std::min(1.0, result.utilization())},
              {"services", std::move(services)}};
}

// A stream service's SLO is that of its frames, which came to the services of its variants.
static Case with_streams(Case given, const Json& streams) {
  for (const auto& [stream, variants] : streams.items()) {
    const auto slo = given.slo.extract(stream);
    if (slo.empty()) continue;
    for (const auto& variant : variants) given.slo.try_emplace(variant, slo.mapped());
  }
  return given;
}

static absl::StatusOr<double> on_time_with(uint32_t workers, const simulate::Scenario& scenario) {
  ASSIGN_OR_RETURN(const simulate::Scenario changed, apply({.workers = workers}, scenario));
  ASSIGN_OR_RETURN(const Json made, replay(changed));
  return made["on_time"].is_null() ? 1.0 : made["on_time"].get<double>();
}

// Doubles until there are enough, and halves what is between: more workers do no harm. `replayed`:
// the recording as it was.
static absl::StatusOr<Json> needed(double on_time, const simulate::Scenario& scenario,
                                   const Json& replayed) {
  const uint32_t now = std::max(scenario.workers.front().count, 1u);
  uint32_t too_few = 0, enough = now;
  const auto requests = replayed["requests"].get<uint64_t>();
  uint64_t left = std::max<uint64_t>(kLeastTried, kMostReplayed / std::max<uint64_t>(requests, 1));
  double best = replayed["on_time"].is_null() ? 1.0 : replayed["on_time"].get<double>();
  for (; best < on_time && enough < kMostTimes * now && left > 0; --left) {
    too_few = enough;
    enough *= 2;
    ASSIGN_OR_RETURN(best, on_time_with(enough, scenario));
  }
  Json answer = {{"on_time", on_time},
                 {"workers", nullptr},
                 {"tried", enough},
                 {"best", best},
                 {"exact", true}};
  if (best < on_time) return answer;
  for (; enough - too_few > 1 && left > 0; --left) {
    const uint32_t middle = too_few + (enough - too_few) / 2;
    ASSIGN_OR_RETURN(const double own, on_time_with(middle, scenario));
    (own < on_time ? too_few : enough) = middle;
    if (own >= on_time) answer["best"] = own;
  }
  answer["workers"] = enough;
  answer["exact"] = enough - too_few <= 1;
  return answer;
}

std::vector<Case> more_workers(const Json& document) {
  const Json& workers = document.at("workers");
  const auto now = (workers.is_array() ? workers[0] : workers).at("count").get<uint32_t>();
  return {{.workers = now + 1}, {.workers = now + 2}};
}

absl::StatusOr<Json> what_if(const Json& document, const std::vector<Case>& cases,
                             std::optional<double> on_time) {
  const Json& recorded = document.at("recorded");
  if (recorded.at("requests") == 0) {
    return error(absl::StatusCode::kFailedPrecondition,
                 "no request that can be replayed was recorded; send some, wait a few seconds, and "
                 "ask again");
  }
  ASSIGN_OR_RETURN(Document text, Document::parse(document.dump(), Document::Format::kJson));
  ASSIGN_OR_RETURN(const simulate::Scenario scenario, text.read(simulate::read_scenario));
  Json answer = {{"recorded", recorded}};
  ASSIGN_OR_RETURN(answer["replayed"], replay(scenario));
  answer["cases"] = Json::array();
  for (const Case& given : cases) {
    const Case whole = with_streams(given, recorded.value("streams", Json::object()));
    ASSIGN_OR_RETURN(const simulate::Scenario changed, apply(whole, scenario));
    ASSIGN_OR_RETURN(Json each, replay(changed));
    each["case"] = write_case(given);
    answer["cases"].push_back(std::move(each));
  }
  if (on_time) {
    ASSIGN_OR_RETURN(answer["needed"], needed(*on_time, scenario, answer["replayed"]));
  }
  answer["error"] =
      std::abs(answer["replayed"]["on_time"].get<double>() - recorded["on_time"].get<double>());
  return answer;
}

}  // namespace fermata::tune
