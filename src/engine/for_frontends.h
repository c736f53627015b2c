#pragma once

#include <vector>

#include "base/ids.h"
#include "engine/served_models.h"
#include "policy/service.h"

namespace fermata::engine {

// What an engine is asked beside, whose requests have their inputs with frontends
// (EngineOptions::inputs_elsewhere). Any thread.
class ForFrontends {
 public:
  virtual ~ForFrontends() = default;
  // What is loaded of the repository: what the catalog is made of, by the services' options.
  virtual ServedModels models() const = 0;
  // What a frontend has found in the inputs of a request, by item: changes nothing where the
  // request has ended, or is no such.
  virtual void learned(JobId job, std::vector<policy::Estimate> by_item) = 0;
};

}  // namespace fermata::engine
