#pragma once

#include <memory>
#include <string>
#include <vector>

#include "by_hand.h"
#include "engine/catalog.h"
#include "engine/observer.h"
#include "engine/options.h"
#include "engine/snapshot.h"
#include "tune/recorder.h"
#include "tune/scenario.h"

namespace fermata::tune {

// A server with the model "m" and a service "front" of it beside, and what a test says happened.
struct RecordedServer {
  engine::EngineOptions options;
  engine::Catalog catalog;
  std::vector<engine::WorkerStatistics> workers = {{.worker = 0}, {.worker = 1}};
  VariantId m = VariantId(7);

  RecordedServer() {
    auto variant = std::make_shared<engine::Variant>();
    variant->id = m;
    variant->model = "m";
    variant->version = "1";
    variant->signature.batches = true;
    variant->signature.max_batch = 8;
    for (const char* name : {"front", "m"}) {
      auto service = std::make_shared<engine::Service>();
      service->name = name;
      service->model = "m";
      service->versions = {variant};
      catalog.services.push_back(std::move(service));
    }
    engine::ServiceOptions front;
    front.name = "front";
    front.model = "m";
    front.slo = Duration::millis(50);
    options.services = {front};
    options.workers.types.front().count = 2;
  }
  // A model of this profile, and the service of its name.
  void add_model(const std::string& name, VariantId id, double alpha_ms, double beta_ms,
                 double slo_ms) {
    auto variant = std::make_shared<engine::Variant>();
    variant->id = id;
    variant->model = name;
    variant->version = "1";
    variant->signature.batches = true;
    variant->signature.max_batch = 64;
    for (const uint32_t b : {1u, 64u}) {
      const double ms = alpha_ms * b + beta_ms;
      variant->profile.batches[b] = {1, ms, ms, ms, ms};
    }
    fit(variant->profile);
    auto service = std::make_shared<engine::Service>();
    service->name = service->model = name;
    service->versions = {std::move(variant)};
    catalog.services.insert(catalog.services.begin(), std::move(service));  // by name
    engine::ServiceOptions own;
    own.name = own.model = name;
    own.slo = Duration::from_millis(slo_ms);
    options.services.push_back(own);
  }
  Server server() const { return {options, catalog, workers}; }
};

// One request of "m" that runs alone from `start` for `run` milliseconds.
struct RunAlone {
  uint64_t id;
  double arrival_ms, start_ms, run_ms, slo_ms;
};

inline void observe(engine::Observer& observer, uint32_t service, VariantId model,
                    const RunAlone& one) {
  using engine::Observer;
  const Time arrival = at_ms(one.arrival_ms), start = at_ms(one.start_ms);
  const Time end = at_ms(one.start_ms + one.run_ms);
  const Time deadline = arrival + Duration::from_millis(one.slo_ms);
  observer.came({.id = JobId(one.id),
                 .service = service,
                 .items = 1,
                 .arrival = arrival,
                 .submitted = arrival,
                 .deadline = deadline,
                 .client_id = "client's"});
  const Observer::Member member{JobId(one.id), arrival};
  observer.bound({.batch = one.id + 1'000'000,
                  .worker = 0,
                  .model = model,
                  .service = service,
                  .items = 1,
                  .at = start,
                  .wanted = arrival,
                  .start = start,
                  .finish = end,
                  .rule = policy::StartRule::kNoMatesExpected,
                  .members = {&member, 1}});
  observer.ended(Observer::BatchEnded{one.id + 1'000'000, start, end, false});
  observer.ended(Observer::Ended{
      .request = JobId(one.id),
      .service = service,
      .outcome = end <= deadline ? engine::Outcome::kOnTime : engine::Outcome::kLate,
      .at = end,
      .queueing = start - arrival,
      .run = end - start,
      .model = model});
}

}  // namespace fermata::tune
