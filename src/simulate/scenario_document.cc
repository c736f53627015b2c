#include "simulate/scenario_document.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/status.h"
#include "model/latency_document.h"
#include "policy/rules_document.h"
#include "policy/scheduler.h"
#include "simulate/arrivals_document.h"
#include "simulate/demand_document.h"
#include "simulate/ensemble_document.h"
#include "simulate/latency_fields.h"
#include "simulate/pipeline_document.h"
#include "simulate/services_document.h"
#include "simulate/variants_document.h"

namespace fermata::simulate {
namespace {

constexpr double kLeastDrift = 0.1, kMostDrift = 10;
constexpr double kLeastMeasuredDrift = 1e-6, kMostMeasuredDrift = 1e6;
constexpr double kLongestRecordedUs = 86'400e6;
constexpr int64_t kMostWorkers = 1'000'000;
constexpr double kLongestApplySeconds = 86'400;
constexpr double kAnyRate = 1000;  // where only the shares count

WorkerGroup read_group(Reader value, bool may_be_auto = false) {
  ObjectReader fields = value.object();
  WorkerGroup group;
  group.type = fields["type"].string("default");
  if (Reader count = fields["count"]; may_be_auto && count.is_string()) {
    count.choice({"auto"});
    group.count = static_cast<uint32_t>(fields["max"].integer(1, kMostWorkers));
    group.least = static_cast<uint32_t>(fields["min"].integer(1, group.count, 1));
    group.apply = Duration::from_seconds(fields["apply_s"].between(0, kLongestApplySeconds, 0.0));
  } else {
    group.count = static_cast<uint32_t>(count.integer(1, kMostWorkers, 1));
  }
  group.memory_mb = fields["memory_mb"].non_negative(0);
  return group;
}

// A map is one group; a list has groups with a type each. Groups of one type
// are put together.
std::vector<WorkerGroup> read_workers(Reader value) {
  if (!value.is_list()) {
    if (value.is_object()) return {read_group(value, /*may_be_auto=*/true)};
    value.fail("a map with count, or a list of such maps with a type each");
    return {};
  }
  std::vector<WorkerGroup> groups;
  for (Reader entry : value.list(1)) {
    const WorkerGroup group = read_group(entry);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const WorkerGroup& g) { return g.type == group.type; });
    if (same == groups.end() && groups.size() == policy::kMostWorkerTypes) {
      entry.fail(fmt::format("at most {} types", policy::kMostWorkerTypes));
    } else if (same == groups.end()) {
      groups.push_back(group);
    } else if (same->memory_mb != group.memory_mb) {
      entry.fail("the memory_mb of the other workers of its type");
    } else {
      same->count += group.count;
    }
  }
  return groups;
}

Duration read_us(Reader value) {
  return Duration::from_millis(value.between(0, kLongestRecordedUs) * 1e-3);
}

// Under `at_us` the moments.
template <class Value>
Measured<Value> read_moments(ObjectReader& fields) {
  Measured<Value> measured;
  for (Reader entry : fields["at_us"].list(1)) measured.moments.push_back({read_us(entry)});
  return measured;
}

// One value for each moment.
template <class Value, class Set>
void read_values(Reader values, Measured<Value>& measured, Set set) {
  size_t next = 0;
  for (Reader entry : values.list(1)) {
    Value ignored;
    set(next < measured.moments.size() ? measured.moments[next].value : ignored, entry);
    ++next;
  }
  if (!values.failed() && next != measured.moments.size()) {
    values.fail(fmt::format("as many as at_us has, {}", measured.moments.size()));
  }
}

// Null where it is wrong.
template <class Value>
std::shared_ptr<const Measured<Value>> in_order(Reader value, Measured<Value> measured) {
  if (value.failed()) return nullptr;
  std::stable_sort(measured.moments.begin(), measured.moments.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return std::make_shared<Measured<Value>>(std::move(measured));
}

std::shared_ptr<const MeasuredDrift> read_measured_drift(Reader value) {
  ObjectReader fields = value.object();
  auto drift = read_moments<Slowdown>(fields);
  read_values(fields["ratio"], drift, [](Slowdown& own, Reader entry) {
    own.ratio = entry.between(kLeastMeasuredDrift, kMostMeasuredDrift);
  });
  if (Reader over = fields["over_us"]; over.present()) {
    read_values(over, drift, [](Slowdown& own, Reader entry) { own.over = read_us(entry); });
  }
  return in_order(value, std::move(drift));
}

std::shared_ptr<const MeasuredDelay> read_delay(Reader value) {
  if (!value.present()) return nullptr;
  ObjectReader fields = value.object();
  auto delay = read_moments<Duration>(fields);
  read_values(fields["us"], delay, [](Duration& own, Reader entry) { own = read_us(entry); });
  return in_order(value, std::move(delay));
}

RecordedDelays read_delays(Reader value) {
  if (!value.present()) return {};
  ObjectReader fields = value.object();
  return {read_delay(fields["start"]), read_delay(fields["decision"]), read_delay(fields["reply"])};
}

SimulatedModel read_model(Reader value, std::span<const std::string> worker_types) {
  ObjectReader fields = value.object();
  SimulatedModel model;
  model.name = fields["name"].name();
  model.latency = read_run_times(fields, worker_types).latency;
  model.slo = read_slo(fields["slo_ms"], model.demand);
  model.demand.items = read_items(fields["items"], 1);
  model.share = read_share(fields["share"], 1.0);
  model.max_batch = static_cast<uint32_t>(fields["max_batch"].integer(1, kLargestBatch, 256));
  if (Reader drift = fields["drift"]; drift.is_object()) {
    model.measured = read_measured_drift(drift);
  } else {
    model.drift = drift.between(kLeastDrift, kMostDrift, 1.0);
  }
  if (Reader arrival = fields["arrival"]; arrival.present())
    model.arrival = read_scenario_arrivals(arrival);
  if (Reader memory = fields["memory_mb"]; memory.present()) {
    ObjectReader parts = memory.object();
    model.static_mb = parts["static"].non_negative(0);
    model.dynamic_mb = parts["dynamic"].non_negative(0);
  }
  check_latencies(value, model.latency, model.max_batch);
  return model;
}

std::vector<SimulatedModel> read_models(Reader value, const std::vector<WorkerGroup>& workers) {
  std::vector<SimulatedModel> models;
  std::vector<std::string> types;
  for (const WorkerGroup& group : workers) types.push_back(group.type);
  std::set<std::string> names;
  for (Reader entry : value.list(1)) {
    models.push_back(read_model(entry, types));
    if (!names.insert(models.back().name).second && !value.failed()) {
      entry.fail(fmt::format("a name that no other model has, not '{}'", models.back().name));
    }
  }
  return models;
}

// Traces say themselves how many requests come; other processes need a rate.
double read_rate(Reader value, const Scenario& scenario, bool needed) {
  const auto trace = [](const auto& source) {
    return source.share == 0 || std::holds_alternative<TraceArrivals>(source.arrival) ||
           std::holds_alternative<RecordedArrivals>(source.arrival);
  };
  const bool counted = std::all_of(scenario.models.begin(), scenario.models.end(), trace) &&
                       std::all_of(scenario.variants.begin(), scenario.variants.end(), trace) &&
                       std::all_of(scenario.ensembles.begin(), scenario.ensembles.end(), trace) &&
                       std::all_of(scenario.pipelines.begin(), scenario.pipelines.end(), trace);
  if (counted && !value.present()) return 0;
  const std::optional<double> fallback = needed ? std::nullopt : std::optional(kAnyRate);
  return value.between(kLowestRate, kHighestRate, fallback);
}

// A request less often than that would come after the end of time.
void check_shares(Reader value, const Scenario& scenario) {
  const auto check = [&](const auto& source) {
    if (source.share == 0) return;  // nobody calls it directly
    const double rate = scenario.rate_of(source.share);
    if (rate >= kLowestRate || value.failed()) return;
    value.fail(fmt::format("shares of at least {} requests/s each: '{}' has {}", kLowestRate,
                           source.name, rate));
  };
  for (const SimulatedModel& m : scenario.models) check(m);
  for (const SimulatedVariants& a : scenario.variants) check(a);
  for (const SimulatedEnsemble& e : scenario.ensembles) check(e);
  for (const SimulatedPipeline& p : scenario.pipelines) check(p);
}

// Somebody is called.
void check_total_share(Reader value, const Scenario& scenario) {
  const auto called = [](const auto& source) { return source.share > 0; };
  if (value.failed() || std::any_of(scenario.models.begin(), scenario.models.end(), called) ||
      std::any_of(scenario.variants.begin(), scenario.variants.end(), called) ||
      std::any_of(scenario.ensembles.begin(), scenario.ensembles.end(), called) ||
      std::any_of(scenario.pipelines.begin(), scenario.pipelines.end(), called)) {
    return;
  }
  value.fail("a service whose share is above 0");
}

void check_scheduler(Reader value, const Scenario& scenario) {
  const auto scheduler = policy::make_scheduler(scenario.scheduler, scenario.groups);
  if (!scheduler.ok()) return value.fail(message(scheduler.status()));
  const std::string_view missing = scenario.missing_in(**scheduler);
  if (!missing.empty()) value.fail(fmt::format("one that {}", missing));
}

// As counted: every trace keeps its own mean.
void rate_from_traces(Scenario& scenario) {
  const auto count = [&scenario](auto& source) {
    if (source.share == 0) return;
    const auto* trace = std::get_if<TraceArrivals>(&source.arrival);
    source.share = trace != nullptr ? mean_rate(*trace)
                                    : mean_rate(std::get<RecordedArrivals>(source.arrival));
    scenario.rate_rps += source.share;
  };
  for (SimulatedModel& m : scenario.models) count(m);
  for (SimulatedVariants& a : scenario.variants) count(a);
  for (SimulatedEnsemble& e : scenario.ensembles) count(e);
  for (SimulatedPipeline& p : scenario.pipelines) count(p);
}

Scenario read(Reader root, bool rate_needed) {
  static const std::vector<std::string_view> kSchedulers = policy::all_scheduler_names();
  ObjectReader fields = root.object();
  Scenario scenario;
  scenario.seed = static_cast<uint64_t>(fields["seed"].integer(0, int64_t{1} << 53, 1));
  scenario.warmup =
      Duration::from_seconds(fields["warmup_s"].between(0, kLongestTimeMs / 1e3, 2.0));
  scenario.duration =
      Duration::from_seconds(fields["duration_s"].between(1e-3, kLongestTimeMs / 1e3, 20.0));
  fields["recorded"];  // of a recording, what happened: for others to read
  const Reader scheduler = fields["scheduler"];
  scenario.scheduler = kSchedulers[scheduler.choice(kSchedulers, 0)];
  scenario.groups.rules = policy::read_rules(fields["rules"], scenario.scheduler);
  scenario.workers = read_workers(fields["workers"]);
  if (Reader network = fields["network"]; network.present()) {
    ObjectReader delays = network.object();
    scenario.network.control =
        Duration::from_millis(delays["control_ms"].between(0, kLongestTimeMs, 0.0));
    scenario.network.per_item =
        Duration::from_millis(delays["per_item_ms"].between(0, kLongestTimeMs, 0.0));
  }
  scenario.delays = read_delays(fields["delays"]);
  scenario.groups.window =
      Duration::from_millis(fields["window_ms"].between(0, kLongestTimeMs, 100.0));
  if (Reader aware = fields["data_aware"]; aware.present()) {
    scenario.groups.data_aware = aware.boolean();
  }
  if (Reader own = fields["short_circuit"]; own.present()) {
    scenario.groups.short_circuit = own.boolean();
  }
  policy::ServiceSettings& groups = scenario.groups;
  groups.tau = static_cast<uint32_t>(fields["tau"].integer(0, 1'000'000, groups.tau));
  groups.max_group =
      static_cast<uint32_t>(fields["max_group"].integer(1, int64_t{UINT32_MAX}, groups.max_group));
  groups.delta = fields["delta"].between(1e-9, 1, groups.delta);
  Reader applications = fields["applications"], ensembles = fields["ensembles"];
  Reader pipelines = fields["pipelines"];
  const bool others = applications.present() || ensembles.present() || pipelines.present();
  if (Reader models = fields["models"]; models.present() || !others) {
    scenario.models = read_models(models, scenario.workers);
  }
  ServiceNames named;
  if (applications.present()) {
    scenario.variants = read_variants_services(applications, scenario, named);
  }
  if (ensembles.present()) scenario.ensembles = read_ensembles(ensembles, scenario, named);
  if (pipelines.present()) read_pipelines(pipelines, scenario, named);
  if (!root.failed()) resolve_services(root, named, scenario);
  if (!root.failed()) check_adapters(pipelines, scenario);
  if (!root.failed()) check_scheduler(scheduler, scenario);
  check_total_share(root, scenario);
  Reader rate = fields["rate_rps"];
  scenario.rate_rps = read_rate(rate, scenario, rate_needed);
  if (root.failed()) return scenario;
  if (scenario.rate_rps == 0) {
    rate_from_traces(scenario);
  } else {
    check_shares(rate, scenario);
  }
  return scenario;
}

}  // namespace

Scenario read_scenario(Reader root) { return read(root, /*rate_needed=*/true); }
Scenario read_goodput_scenario(Reader root) { return read(root, /*rate_needed=*/false); }

}  // namespace fermata::simulate
