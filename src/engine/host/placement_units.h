#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/options.h"

namespace fermata::engine {

// Which models have to live in one sub-cluster for a service to be served: the base models of an
// ensemble, and those of others that share one with it. Immutable.
class PlacementUnits {
 public:
  explicit PlacementUnits(const std::vector<ServiceOptions>& services);

  // Of a model: its members joined by +, itself where it may live anywhere.
  const std::string& unit_of(const std::string& model) const;
  // Of a unit of several; else of none.
  const std::vector<std::string>& members(const std::string& unit) const;

 private:
  std::map<std::string, std::string> units_;                 // by model
  std::map<std::string, std::vector<std::string>> members_;  // by unit, in order of their names
};

}  // namespace fermata::engine
