#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/composite/ensemble_service.h"
#include "engine/composite/variants_service.h"
#include "engine/options.h"
#include "engine/schedule/job.h"
#include "engine/served_models.h"
#include "engine/services/pipeline.h"

namespace fermata::engine {

// Where requests go, at one moment: what the scheduler's side of a catalog is.
struct Routes {
  std::shared_ptr<const Catalog> catalog;
  // By service; by version, ascending. What is not ready has no route.
  absl::flat_hash_map<std::string, std::vector<std::shared_ptr<Route>>> by_service;

  // NOT_FOUND or UNAVAILABLE as Catalog::find.
  absl::StatusOr<std::shared_ptr<Route>> find(const std::string& service,
                                              const std::string& version) const;

  // Who counts a request for a version that is not there, or for a service that is not ready;
  // null: there is no such service.
  std::shared_ptr<Counters> counters(const std::string& service) const;
  absl::flat_hash_map<std::string, std::shared_ptr<Counters>> away;  // of those that are not ready
};

// The models of a service that several answer; null: one does, or its members are services.
const std::vector<std::string>* models_of(const ServiceOptions& service);

// The services that a model answers: those that name it, and one of its own name with
// the defaults unless a service has taken that name.
std::vector<ServiceOptions> services_of(const EngineOptions& options, const std::string& model);

// Whether it names the variants that a stage of one of these has to itself.
bool is_stage(const std::string& name, const std::vector<ServiceOptions>& services);

// Which services there are, which versions of their models are loaded, and how each
// service has fared; counters and queues outlive reloads. Not synchronised.
class Registry {
  static constexpr uint32_t kFirstPublic = uint32_t{1} << 31;  // beyond the loader's ids

 public:
  using Variants = std::vector<std::shared_ptr<const Variant>>;
  using Loaded = ServedModel;
  explicit Registry(const EngineOptions& options)
      : options_(options), bytes_(std::make_shared<ByteBudget>(options.limits.held_bytes)) {}

  // Replaces what is loaded of a model; returns what that was.
  Loaded put(const std::string& model, Loaded loaded);
  const ServedModels& loaded() const { return loaded_; }
  // Replaces all of them.
  void put_all(ServedModels models) { loaded_ = std::move(models); }

  // What judges the requests of a service of several variants.
  void set_evidence(const std::string& service, EvidenceModel* evidence);
  // How often its models are right, where their profiles do not say.
  void add_answers(const std::string& service, std::map<std::string, AnswerProfile> answers);
  std::shared_ptr<const Routes> routes();
  // What puts together the answers of an ensemble.
  void set_ensemble(const std::string& service, EnsembleModel* model);
  // What clients see of services that others answer and that have no route of their own.
  void set_faces(std::vector<std::shared_ptr<const Service>> faces) { faces_ = std::move(faces); }
  // Why a service that is made of others is not served although they are loaded.
  absl::Status composites() const;
  // The tightest deadline of the services that use a model; infinite: none has one.
  Duration tightest_slo(const std::string& model) const;
  std::vector<ServiceStatistics> statistics() const;
  // By model: how many requests its services have been asked since the start, but for those
  // that did not fit it or found it away. Those of a service of several variants count for
  // each in equal parts, those of an ensemble for each of its models.
  std::map<std::string, uint64_t> demand() const;

 private:
  std::shared_ptr<Counters> counters(const std::string& service, const std::string& version);
  // Clients find it in the catalog, unless it is a stage's.
  std::shared_ptr<Service> new_service(const ServiceOptions& options, Catalog& catalog) const;
  std::shared_ptr<Route> route(const ServiceOptions& service,
                               const std::shared_ptr<const Variant>& variant, uint32_t subcluster);
  void add_service(const ServiceOptions& options, const Loaded& loaded, Catalog& catalog,
                   Routes& routes);

  struct OfModels {
    EvidenceModel* evidence = nullptr;
    std::map<std::string, AnswerProfile> answers;  // by model
    EnsembleModel* ensemble = nullptr;
    absl::StatusOr<std::shared_ptr<const Composite>> composite = nullptr;
    uint32_t subcluster = 0;
  };
  void gather(const ServiceOptions& service, OfModels& known);
  absl::StatusOr<std::shared_ptr<const Composite>> make(const ServiceOptions& service,
                                                        const OfModels& known, Variants variants);
  void add_of_models(const ServiceOptions& options, Catalog& catalog, Routes& routes);
  // Those that it contains were added before.
  void add_of_members(const ServiceOptions& options, Catalog& catalog, Routes& routes);

  const EngineOptions& options_;
  const std::shared_ptr<ByteBudget> bytes_;    // of all services
  std::map<std::string, OfModels> of_models_;  // by service
  struct OfMembers {
    std::vector<std::shared_ptr<const Variant>> members;  // what it was made from
    absl::StatusOr<std::shared_ptr<const Pipeline>> pipeline = nullptr;
  };
  std::map<std::string, OfMembers> of_members_;  // by service
  std::vector<std::shared_ptr<const Service>> faces_;
  uint32_t next_public_ = kFirstPublic;
  ServedModels loaded_;
  std::map<std::string, std::shared_ptr<Gate>> gates_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Counters>> counters_;
};

}  // namespace fermata::engine
