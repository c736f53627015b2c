#include "tune/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/histogram.h"
#include "policy/rules_document.h"
#include "tune/scenario_maker.h"

namespace fermata::tune {
namespace {

constexpr Duration kLongestWarmup = Duration::seconds(5), kLongestTail = Duration::seconds(2);
constexpr int kMostDepth = 16;  // of services within services
constexpr double kLeastSloUs = 1;

// What came to the scheduler and was its to decide on.
bool is_replayed(const RecordedRequest& request) {
  switch (request.outcome) {
    case engine::Outcome::kUnavailable:
    case engine::Outcome::kInvalid:
      return false;
    case engine::Outcome::kCancelled:
      return request.batch != 0;
    default:
      return request.ended();
  }
}

Json share(double part, uint64_t of) {
  return of == 0 ? Json(nullptr) : Json(part / static_cast<double>(of));
}

}  // namespace

ScenarioMaker::ScenarioMaker(const Recording& recording, const Server& server)
    : recording_(recording),
      server_(server),
      made_models_(Json::array()),
      made_variants_(Json::array()),
      made_ensembles_(Json::array()),
      made_pipelines_(Json::array()) {
  for (const engine::WorkerStatistics& worker : server.workers) types_.push_back(worker.type);
  for (const engine::WorkerType& type : server.options.workers.types) {
    type_names_.push_back(type.name);
  }
  delays_ = measured_delays(recording);
  measured_ = measured_runs(recording);
  // A recording too short for a warm-up and a tail counts whole.
  const Duration length = recording.to - recording.from;
  const bool is_short = length < kLongestWarmup + kLongestTail;
  from_ = recording.from + (is_short ? Duration() : std::min(kLongestWarmup, length / 4));
  Duration slowest = Duration::millis(100);
  for (const RecordedRequest& request : recording.requests) {
    if (request.ended()) slowest = std::max(slowest, request.end - request.arrival);
  }
  const Duration tail = is_short ? Duration() : std::min({slowest, kLongestTail, length / 4});
  to_ = std::max(from_ + Duration::millis(1), recording.to - tail);
  // Nor is there anything to warm up where all requests came in that time.
  const auto counts = [this](const RecordedRequest& request) {
    return request.parent.is_none() && is_replayed(request) && request.submitted >= from_ &&
           request.submitted < to_;
  };
  if (absl::c_any_of(recording.requests, counts)) return;
  from_ = recording.from;
  to_ = std::max(from_ + Duration::millis(1), recording.to);
}

// A request of a client goes to its service; a part of one is what its stage made of it.
void ScenarioMaker::sort_requests() {
  for (const RecordedRequest& request : recording_.requests) {
    const std::string& service = recording_.service(request.service);
    if (!request.parent.is_none()) {
      parts_[service][request.parent] += request.items;
    } else if (is_replayed(request) && request.submitted >= recording_.from) {
      direct_[service].push_back(&request);
    }
  }
  for (const RecordedOperator& ran : recording_.operators) {
    parts_[recording_.service(ran.service)][ran.request] += 1;
  }
}

const engine::Service* ScenarioMaker::find(const std::string& service) const {
  const engine::Service* found = server_.catalog.find(service);
  return found == nullptr || found->versions.empty() ? nullptr : found;
}

const engine::ServiceOptions* ScenarioMaker::options_of(const std::string& service) const {
  const auto& all = server_.options.services;
  const auto at = absl::c_find_if(all, [&](const auto& each) { return each.name == service; });
  return at == all.end() ? nullptr : &*at;
}

void ScenarioMaker::skip(const std::string& service, std::string why) {
  skipped_.emplace(service, std::move(why));
}

// The services that it is made of; models of the repository among them only of a pipeline's stages.
std::vector<std::string> ScenarioMaker::services_in(const engine::ServiceOptions* options) {
  std::vector<std::string> members;
  if (options == nullptr) return members;
  if (options->variants) {
    for (const auto& [member, accuracy] : options->variants->services) members.push_back(member);
  } else if (options->ensemble) {
    members = {options->ensemble->services.begin(), options->ensemble->services.end()};
  } else if (options->pipeline) {
    for (const auto& stage : options->pipeline->stages) {
      if (!stage.service.empty()) members.push_back(stage.service);
    }
  }
  return members;
}

// Frames of stream services came to the services of their variants, by what their clients had been
// told.
Json ScenarioMaker::streams() {
  Json all = Json::object();
  for (const engine::ServiceOptions& options : server_.options.services) {
    if (!options.stream) continue;
    Json variants = Json::array();
    for (const auto& variant : options.stream->variants) {
      if (done_.contains(variant.service) && direct_.contains(variant.service)) {
        variants.push_back(variant.service);
      }
    }
    if (variants.empty()) continue;
    note(fmt::format("the frames of '{}' keep the sizes that its clients had", options.name));
    all[options.name] = std::move(variants);
  }
  return all;
}

// Adds it and what it is made of. False: it cannot be, and why is noted.
bool ScenarioMaker::replays(const std::string& name, int depth) {
  if (done_.contains(name)) return true;
  if (skipped_.contains(name)) return false;
  const engine::Service* service = find(name);
  if (service == nullptr) {
    skip(name, "it is not served any more");
    return false;
  }
  if (depth > kMostDepth) {
    skip(name, "it is made of services too deep within each other");
    return false;
  }
  const engine::ServiceOptions* options = options_of(name);
  for (const std::string& member : services_in(options)) {
    if (replays(member, depth + 1)) continue;
    skip(name, fmt::format("its member '{}' cannot be replayed", member));
    return false;
  }
  if (options != nullptr && !have_names_of_their_own(*options)) {
    skip(name, "two of its members are the same model");
    return false;
  }
  Json own = {{"name", name}};
  const auto asked = direct_.find(name);
  const Requests requests = asked == direct_.end() ? Requests() : asked->second;
  Duration slo = options != nullptr && options->slo ? *options->slo : Duration::infinite();
  own["slo_ms"] = slo.is_infinite() ? Json(nullptr) : Json(slo.millis());
  own["share"] = requests.empty() ? 0 : 1;
  if (!requests.empty()) own["arrival"] = arrivals(requests, own);
  done_.insert(name);
  if (service->info != nullptr) {
    const bool of_variants = std::holds_alternative<policy::VariantsInfo>(*service->info);
    (of_variants ? made_variants_ : made_ensembles_)
        .push_back(of_variants ? variants_service(*service, std::move(own))
                               : ensemble(*service, std::move(own)));
  } else if (options != nullptr && options->pipeline) {
    made_pipelines_.push_back(pipeline(*service, std::move(own)));
  } else {
    add_model_service(*service, std::move(own));
  }
  return true;
}

// As they came to the engine, with what was left of their deadlines then.
Json ScenarioMaker::arrivals(const Requests& requests, Json& own) const {
  Json at = Json::array(), slos = Json::array(), items = Json::array();
  bool same_slo = true, same_items = true;
  Duration longest;
  const auto slo_us = [&](const RecordedRequest& request) -> Json {
    if (request.deadline.is_infinite()) return nullptr;
    const Duration left = request.deadline - request.submitted;
    return std::max(kLeastSloUs, static_cast<double>(left.nanos() / 1000));
  };
  Requests sorted = requests;
  absl::c_stable_sort(sorted,
                      [](const auto* a, const auto* b) { return a->submitted < b->submitted; });
  for (const RecordedRequest* request : sorted) {
    at.push_back((request->submitted - recording_.from).nanos() / 1000);
    slos.push_back(slo_us(*request));
    items.push_back(std::max(request->items, 1u));
    if (!request->deadline.is_infinite()) {
      longest = std::max(longest, request->deadline - request->arrival);
    }
    same_slo = same_slo && slos.back() == slos.front();
    same_items = same_items && items.back() == items.front();
  }
  if (own["slo_ms"].is_null() && longest > Duration()) own["slo_ms"] = longest.millis();
  Json arrival = {{"process", "recorded"}, {"at_us", std::move(at)}};
  arrival["slo_us"] = same_slo ? slos.front() : std::move(slos);
  arrival["items"] = same_items ? items.front() : std::move(items);
  return arrival;
}

// What the server itself took.
Json ScenarioMaker::delays() const {
  Json all = Json::object();
  const auto add = [&all](const char* name, const simulate::MeasuredDelay& delay) {
    if (delay.moments.empty()) return;
    Json at = Json::array(), us = Json::array();
    for (const auto& each : some_of(delay.moments)) {
      at.push_back(each.at.nanos() / 1000);
      us.push_back(each.value.nanos() / 1000);
    }
    all[name] = {{"at_us", std::move(at)}, {"us", std::move(us)}};
  };
  add("start", delays_.start);
  add("decision", delays_.decision);
  add("reply", delays_.reply);
  return all;
}

Json ScenarioMaker::workers() const {
  std::vector<uint32_t> counts(type_names_.size());
  for (const engine::WorkerStatistics& worker : server_.workers) {
    if (worker.serving && worker.type < counts.size()) ++counts[worker.type];
  }
  if (counts.size() == 1) return {{"count", std::max(counts[0], 1u)}};
  Json all = Json::array();
  for (size_t type = 0; type < counts.size(); ++type) {
    all.push_back({{"type", type_names_[type]}, {"count", std::max(counts[type], 1u)}});
  }
  return all;
}

Json ScenarioMaker::recorded() {
  Json streams = this->streams();
  Json services = Json::object();
  uint64_t requests = 0, on_time = 0, judged = 0;
  double accuracy = 0;
  for (const auto& [name, own] : direct_) {
    if (!done_.contains(name)) continue;
    uint64_t count = 0, in_time = 0, known = 0;
    double sum = 0;
    Histogram latency;
    for (const RecordedRequest* request : own) {
      if (request->submitted < from_ || request->submitted >= to_) continue;
      ++count;
      in_time += request->outcome == engine::Outcome::kOnTime ? 1 : 0;
      if (!request->answered()) continue;
      latency.record(request->end - request->arrival);
      if (request->accuracy <= 0) continue;
      ++known;
      sum += request->accuracy;
    }
    if (count == 0) continue;
    services[name] = {{"requests", count},
                      {"on_time", share(static_cast<double>(in_time), count)},
                      {"accuracy", share(sum, known)},
                      {"p99_ms", latency.quantile(0.99).millis()}};
    requests += count;
    on_time += in_time;
    judged += known;
    accuracy += sum;
  }
  Duration busy;
  for (const RecordedBatch& batch : recording_.batches) {
    const Time start = batch.start.is_infinite() ? batch.expected_start : batch.start;
    const Time end = batch.end.is_infinite() ? batch.expected_end : batch.end;
    busy += std::max(std::min(end, to_) - std::max(start, from_), Duration());
  }
  uint64_t serving = 0;
  for (const engine::WorkerStatistics& worker : server_.workers) serving += worker.serving ? 1 : 0;
  const double time = (to_ - from_).seconds() * static_cast<double>(std::max<uint64_t>(serving, 1));
  Json skipped = Json::array();
  for (const auto& [name, why] : skipped_) {
    const auto own = direct_.find(name);
    if (own == direct_.end() || own->second.empty()) continue;
    skipped.push_back({{"service", name}, {"requests", own->second.size()}, {"why", why}});
  }
  return {{"requests", requests},
          {"seconds", (to_ - from_).seconds()},
          {"on_time", share(static_cast<double>(on_time), requests)},
          {"accuracy", share(accuracy, judged)},
          {"busy", std::min(1.0, busy.seconds() / time)},
          {"services", std::move(services)},
          {"streams", std::move(streams)},
          {"not_replayed", std::move(skipped)},
          {"notes", notes_},
          {"lost_events", recording_.lost}};
}

Json ScenarioMaker::make() {
  sort_requests();
  std::vector<std::string> called;
  for (const auto& [name, requests] : direct_) called.push_back(name);
  const auto is_model = [this](const std::string& name) {
    const engine::Service* const service = find(name);
    const engine::ServiceOptions* const options = options_of(name);
    return service != nullptr && service->info == nullptr &&
           (options == nullptr || !options->pipeline);
  };
  absl::c_stable_partition(called, is_model);
  for (const std::string& name : called) replays(name);
  // Models that only services of several name, after those that have requests of their own.
  for (const auto& [name, own] : models_) {
    const auto there = absl::c_any_of(
        made_models_, [&own = own](const Json& model) { return model["name"] == own; });
    const engine::Service* const service = find(name);
    if (there) continue;
    Json added = {{"name", own}, {"slo_ms", nullptr}, {"share", 0}};
    const engine::Variant* variant = nullptr;
    if (service != nullptr && service->model == name) variant = service->versions.back().get();
    for (const auto& each : server_.catalog.services) {
      if (variant == nullptr && each->model == name && !each->versions.empty()) {
        variant = each->versions.back().get();
      }
    }
    if (variant == nullptr) continue;
    add_latency(*variant, added);
    added["max_batch"] = variant->signature.max_batch;
    made_models_.push_back(std::move(added));
  }
  Json document = {{"seed", 1},
                   {"warmup_s", (from_ - recording_.from).seconds()},
                   {"duration_s", (to_ - from_).seconds()},
                   {"scheduler", server_.options.policy},
                   {"workers", workers()}};
  if (Json own = delays(); !own.empty()) document["delays"] = std::move(own);
  const policy::ServiceSettings& groups = server_.options.groups;
  document["window_ms"] = groups.window.millis();
  if (groups.rules) document["rules"] = policy::write_rules(*groups.rules, server_.options.policy);
  if (!made_models_.empty()) document["models"] = std::move(made_models_);
  if (!made_variants_.empty()) document["applications"] = std::move(made_variants_);
  if (!made_ensembles_.empty()) document["ensembles"] = std::move(made_ensembles_);
  if (!made_pipelines_.empty()) document["pipelines"] = std::move(made_pipelines_);
  document["recorded"] = recorded();
  return document;
}

Json scenario_document(const Recording& recording, const Server& server) {
  return ScenarioMaker(recording, server).make();
}

}  // namespace fermata::tune
