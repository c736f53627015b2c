#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/document.h"
#include "policy/service.h"
#include "tune/scenario.h"

namespace fermata::tune {

// At most so many moments of a thing that was measured, which stand for all.
inline constexpr size_t kMostMoments = 20'000;
template <class Moment>
std::vector<Moment> some_of(const std::vector<Moment>& all) {
  const size_t step = (all.size() + kMostMoments - 1) / kMostMoments;
  std::vector<Moment> some;
  for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
  return some;
}

// Makes a scenario of a recording, service by service; for the files of scenario_document() only.
class ScenarioMaker {
 public:
  ScenarioMaker(const Recording& recording, const Server& server);
  Json make();

 private:
  using Requests = std::vector<const RecordedRequest*>;

  void sort_requests();
  const engine::Service* find(const std::string& service) const;
  const engine::ServiceOptions* options_of(const std::string& service) const;
  static std::vector<std::string> services_in(const engine::ServiceOptions* options);
  bool replays(const std::string& service, int depth = 0);
  void skip(const std::string& service, std::string why);
  void note(std::string text) { notes_.insert(std::move(text)); }

  // The name in the scenario of a model; added where it is not there yet. `first`: the service
  // whose requests it takes itself.
  std::string model(const std::string& model, const std::string& service = {});
  void add_model_service(const engine::Service& service, Json own);
  bool have_names_of_their_own(const engine::ServiceOptions& of);  // its variants or base models
  // Of a variant or base model: a service, or a model of the scenario.
  Json member(const std::string& name, bool is_service);
  Json variants_service(const engine::Service& service, Json own);
  Json ensemble(const engine::Service& service, Json own);
  Json pipeline(const engine::Service& service, Json own);  // scenario_pipelines.cc
  Json items_made(const std::string& of, const std::string& next) const;
  double share_that_ran(const std::string& before, const std::string& stage) const;
  std::vector<std::string> before(const engine::PipelineOptions& options, size_t stage) const;
  Json arrivals(const Requests& requests, Json& own) const;
  void add_latency(const engine::Variant& variant, Json& model) const;
  Json workers() const;
  Json delays() const;
  Json streams();
  Json recorded();

  const Recording& recording_;
  const Server& server_;
  std::vector<uint32_t> types_;  // of each worker
  std::vector<std::string> type_names_;
  MeasuredRuns measured_;
  MeasuredDelays delays_;
  Time from_, to_;                          // of the requests that are measured
  std::map<std::string, Requests> direct_;  // by service, of clients
  // Of parts of requests: by stage's route and client's request, the items.
  std::map<std::string, absl::flat_hash_map<JobId, uint32_t>> parts_;
  std::map<std::string, std::string> models_;  // in the scenario, by model
  std::map<std::string, std::string> skipped_;
  std::set<std::string> notes_, done_;
  Json made_models_, made_variants_, made_ensembles_, made_pipelines_;
};

}  // namespace fermata::tune
