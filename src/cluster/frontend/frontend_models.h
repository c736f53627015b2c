#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/composite/ensemble_model.h"
#include "engine/composite/evidence.h"
#include "engine/host/registry.h"
#include "engine/served_models.h"

namespace fermata::cluster {

// What a frontend finds in the data of its requests: their evidence, and what the answers of an
// ensemble's models make together. It runs no model for that. Files of services are read as their
// scheduler reads them.
class FrontendModels {
 public:
  // Both block; both outlive what the registry makes. INVALID_ARGUMENT where evidence is not what
  // the service says.
  static absl::StatusOr<std::unique_ptr<FrontendModels>> make(
      const std::vector<engine::ServiceOptions>& services, engine::Registry& registry);
  // Of ensembles whose models are there for the first time; the log says what is wrong.
  void serve(const engine::ServedModels& models, engine::Registry& registry);
  // Whoever waits for evidence is told; nobody asks any more.
  void stop() { evidence_.clear(); }

 private:
  explicit FrontendModels(const std::vector<engine::ServiceOptions>& services)
      : services_(services) {}
  const std::vector<engine::ServiceOptions>& services_;
  std::vector<std::unique_ptr<engine::EvidenceModel>> evidence_;
  std::map<std::string, std::unique_ptr<engine::EnsembleModel>> ensembles_;  // by service
};

}  // namespace fermata::cluster
