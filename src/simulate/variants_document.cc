#include "simulate/variants_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "model/latency_document.h"
#include "plan/variants/group_document.h"
#include "simulate/arrivals_document.h"
#include "simulate/demand_document.h"
#include "simulate/latency_fields.h"

namespace fermata::simulate {
namespace {

constexpr int64_t kMostNeighbours = 1'000'000;

std::vector<double> read_weights(Reader value, double least) {
  std::vector<double> weights;
  for (Reader entry : value.list(1)) weights.push_back(entry.between(least, 1e12));
  return weights;
}

// A variant that names one of the models shares its batches.
void read_shared_model(Reader value, const Scenario& scenario, SimulatedVariant& variant) {
  const std::string name = value.string();
  const auto it = std::find_if(scenario.models.begin(), scenario.models.end(),
                               [&name](const SimulatedModel& m) { return m.name == name; });
  if (it == scenario.models.end()) return value.fail("the name of one of the models");
  variant.model = static_cast<size_t>(it - scenario.models.begin());
  variant.latency = it->latency;
  variant.max_batch = it->max_batch;
}

}  // namespace

SimulatedVariant read_runnable(Reader value, ObjectReader& fields, const Scenario& scenario,
                               ServiceNames& named, AnswerProfile* answers) {
  SimulatedVariant variant;
  if (Reader service = fields["service"]; service.present()) {
    variant.name = variant.service_name = service.string();
    named.emplace_back(service, variant.name);
    return variant;
  }
  if (Reader model = fields["model"]; model.present()) {
    read_shared_model(model, scenario, variant);
    variant.name = model.string();
  } else {
    variant.name = fields["name"].name();
    std::vector<std::string> types;
    for (const WorkerGroup& group : scenario.workers) types.push_back(group.type);
    RunTimes times = read_run_times(fields, types);
    const Profile profiled = std::move(times.profile).value_or(Profile());
    variant.latency = std::move(times.latency);
    variant.max_batch = static_cast<uint32_t>(fields["max_batch"].integer(1, kLargestBatch, 256));
    variant.load =
        Duration::from_millis(fields["load_ms"].between(0, kLongestTimeMs, profiled.load_ms));
    variant.memory_mb = fields["memory_mb"].non_negative(profiled.memory_mb);
    if (answers != nullptr) *answers = profiled.answers;
  }
  check_latencies(value, variant.latency, variant.max_batch);
  return variant;
}

SimulatedVariant read_variant(Reader value, const Scenario& scenario, size_t classes,
                              ServiceNames& named) {
  ObjectReader fields = value.object();
  AnswerProfile profiled;
  SimulatedVariant variant = read_runnable(value, fields, scenario, named, &profiled);
  variant.accuracy = fields["accuracy"].between(0, 1, profiled.accuracy);
  const Reader recall = fields["recall"];
  if (recall.present()) {
    for (Reader entry : recall.list(1)) variant.recall.push_back(entry.between(0, 1));
  } else {
    for (const auto& known : profiled.recall) {
      variant.recall.push_back(known.value_or(variant.accuracy));
    }
  }
  const bool fits = variant.recall.empty() || variant.recall.size() == classes;
  if (classes > 0 && !fits && !value.failed()) {
    (recall.present() ? recall : value)
        .fail(fmt::format("{} recalls, one for each class of the prior", classes));
  }
  return variant;
}

namespace {

Example read_example(Reader value, const SimulatedVariants& service) {
  ObjectReader fields = value.object();
  Example example;
  example.label = static_cast<uint32_t>(fields["label"].integer(0, 1'000'000));
  const size_t classes = service.prior.size();
  if (classes > 0 && example.label >= classes && !value.failed()) {
    value.fail(fmt::format("a label below {}, the number of classes of the prior", classes));
  }
  if (Reader evidence = fields["evidence"]; evidence.present()) {
    for (Reader count : evidence.list(1)) {
      example.evidence.push_back(static_cast<uint32_t>(count.integer(0, kMostNeighbours)));
    }
    if (example.evidence.size() != classes && !value.failed()) {
      evidence.fail(fmt::format("{} counts, one for each class of the prior", classes));
    }
  }
  Reader correct = fields["correct"];
  for (Reader entry : correct.list(1)) example.correct.push_back(entry.boolean());
  if (example.correct.size() != service.variants.size() && !value.failed()) {
    correct.fail(fmt::format("{} entries, one for each variant", service.variants.size()));
  }
  if (Reader short_circuit = fields["short_circuit"]; short_circuit.present()) {
    example.short_circuit_correct = short_circuit.boolean();
  }
  return example;
}

void read_normal_slo(Reader value, SimulatedVariants& service) {
  ObjectReader fields = value.object();
  Reader normal = fields["normal"];
  std::vector<double> ms;
  for (Reader entry : normal.list(2)) {
    ms.push_back(ms.empty() ? entry.between(1e-3, kLongestTimeMs)
                            : entry.between(0, kLongestTimeMs));
  }
  if (value.failed()) return;
  if (ms.size() != 2) return normal.fail("the mean and the standard deviation");
  service.slo = Duration::from_millis(ms[0]);
  service.slo_deviation = Duration::from_millis(ms[1]);
}

// Every class that is to come has an example.
std::vector<double> read_labels(Reader value, const SimulatedVariants& service) {
  std::vector<double> labels = read_weights(value, 0);
  std::set<uint32_t> there;
  for (const Example& e : service.examples) there.insert(e.label);
  const size_t classes = there.empty() ? 0 : *there.rbegin() + size_t{1};
  if (value.failed()) return labels;
  if (labels.size() != classes) {
    value.fail(fmt::format("{} weights, one for each class of the examples", classes));
    return labels;
  }
  double sum = 0;
  for (uint32_t c = 0; c < classes; ++c) {
    sum += labels[c];
    if (labels[c] > 0 && !there.contains(c)) {
      value.fail(fmt::format("0 for class {}, of which there is no example", c));
      return labels;
    }
  }
  if (sum == 0) value.fail("a weight above 0");
  return labels;
}

void read_label_changes(Reader value, SimulatedVariants& service) {
  for (Reader entry : value.optional_list()) {
    ObjectReader fields = entry.object();
    const Reader at = fields["at_s"];
    LabelChange change{Time() + Duration::from_seconds(at.between(0, kLongestTimeMs / 1000)), {}};
    change.labels = read_labels(fields["labels"], service);
    const auto& before = service.label_changes;
    if (!before.empty() && change.at <= before.back().at && !value.failed()) {
      at.fail("a time after the change before");
    }
    service.label_changes.push_back(std::move(change));
  }
}

SimulatedVariants read_variants_service(Reader value, const Scenario& scenario,
                                        ServiceNames& named) {
  ObjectReader fields = value.object();
  SimulatedVariants service;
  service.name = fields["name"].name();
  if (Reader slo = fields["slo_ms"]; is_common_slo(slo)) {
    service.slo = read_slo(slo, service.demand);
  } else {
    read_normal_slo(slo, service);
  }
  service.demand.items = read_items(fields["items"], 1);
  service.share = read_share(fields["share"], 1.0);
  if (Reader arrival = fields["arrival"]; arrival.present()) {
    service.arrival = read_scenario_arrivals(arrival);
  }
  service.penalty = plan::read_penalty(fields["penalty"]);
  if (Reader prior = fields["prior"]; prior.present()) {
    service.prior = read_weights(prior, 1e-9);
  }
  std::set<std::string> names;
  for (Reader entry : fields["variants"].list(1)) {
    service.variants.push_back(read_variant(entry, scenario, service.prior.size(), named));
    if (!names.insert(service.variants.back().name).second && !value.failed()) {
      entry.fail("a name that no other variant has");
    }
  }
  if (Reader own = fields["short_circuit"]; own.present()) {
    service.short_circuit = own.object()["accuracy"].between(0, 1);
    if (has_services(service.variants)) own.fail("none where a variant is a service");
  }
  service.evidence_delay =
      Duration::from_millis(fields["evidence_delay_ms"].between(0, kLongestTimeMs, 0.0));
  // Without any, variants are right as often as they are profiled.
  if (Reader examples = fields["examples"]; examples.present() || !service.prior.empty()) {
    for (Reader entry : examples.list(1)) {
      service.examples.push_back(read_example(entry, service));
    }
  }
  if (Reader labels = fields["labels"]; labels.present()) {
    service.labels = read_labels(labels, service);
  }
  read_label_changes(fields["label_changes"], service);
  return service;
}

}  // namespace

std::vector<SimulatedVariants> read_variants_services(Reader value, const Scenario& scenario,
                                                      ServiceNames& named) {
  std::vector<SimulatedVariants> services;
  std::set<std::string> names;
  for (const SimulatedModel& m : scenario.models) names.insert(m.name);
  for (Reader entry : value.list(1)) {
    services.push_back(read_variants_service(entry, scenario, named));
    if (!names.insert(services.back().name).second && !value.failed()) {
      entry.fail("a name that no model or other application has");
    }
  }
  return services;
}

}  // namespace fermata::simulate
